# A file of 5 MB by nginx over TLS, got by curl over HTTP/1.1 and HTTP/2.
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 \
    -subj /CN=10.9.9.1 -addext subjectAltName=IP:10.9.9.1 2>openssl.log
mkdir www
head -c 5000001 /dev/urandom >www/content
user=
[ "$(id -u)" != 0 ] || user='user root;'
cat >nginx.conf <<CONF
daemon off; $user pid $PWD/pid; error_log stderr; worker_processes 1;
env LD_PRELOAD; env LD_LIBRARY_PATH; env ROCE_SOCKETS;
events { worker_connections 64; }
http {
    access_log off; sendfile on;
    client_body_temp_path $PWD/a; proxy_temp_path $PWD/b; fastcgi_temp_path $PWD/c;
    uwsgi_temp_path $PWD/d; scgi_temp_path $PWD/e;
    server {
        listen 10.9.9.1:8443 ssl http2; root $PWD/www;
        ssl_certificate $PWD/cert.pem; ssl_certificate_key $PWD/key.pem;
    }
}
CONF
nginx -e stderr -c "$PWD/nginx.conf" & server=$!
listening 8443
for version in --http1.1 --http2; do
    curl -sS $version --cacert cert.pem https://10.9.9.1:8443/content | cmp - www/content
    echo "the same by $version"
done
kill $server
