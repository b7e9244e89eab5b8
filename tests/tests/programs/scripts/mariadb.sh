# A database over RDMA: rows that come back as they went, then the queries of mariadb-slap over four connections.
mkdir data
mariadb-install-db --no-defaults --datadir="$PWD/data" --auth-root-authentication-method=normal --skip-test-db \
    --user="$(id -un)" >install.log
mariadbd --no-defaults --datadir="$PWD/data" --user="$(id -un)" --bind-address=10.9.9.1 --port=3307 \
    --socket="$PWD/socket" --skip-grant-tables --skip-name-resolve --innodb-flush-log-at-trx-commit=0 & server=$!
listening 3307
client() {
    "$1" --no-defaults --protocol=tcp --host=10.9.9.1 --port=3307 --skip-ssl "${@:2}"
}
until_served client mariadb -e 'select 1' >ready.log
seq 1 50000 | awk '{ printf "%d\t%032x\n", $1, $1 * 7919 }' >rows
client mariadb -e 'create database test; create table test.numbers (number int primary key, words varchar(40))'
client mariadb --local-infile=1 -e "load data local infile 'rows' into table test.numbers" test
client mariadb -N -e 'select * from numbers order by number' test | cmp - rows
echo 'rows are the same'
client mariadb-slap --auto-generate-sql --concurrency=4 --number-of-queries=4000
kill $server
wait $server
