# h1 reads 1 MiB from each of eight hosts at once. $ROCE and $NVME are the commands.
roce=${ROCE:-roce} nvme=${NVME:-nvme-rdma}
folder=$(mktemp -d)
trap 'rm -rf $folder' EXIT
for n in 2 3 4 5 6 7 8 9; do
    head -c 1M /dev/urandom > $folder/$n
    : > $folder/$n.log
    $roce fabric ssh h$n "exec $nvme serve --listen 10.0.0.$n --namespace $folder/$n --json" > $folder/$n.log &
    until grep -q listening $folder/$n.log; do kill -0 $!; done
done
begin=$(date +%s%N)
read() { $nvme read nvme://10.0.0.$1/nqn.2014-08.org.nvmexpress:roce --to $folder/$1.read; }
readers=
for n in 2 3 4 5 6 7 8 9; do
    read $n 2>> $folder/errors & readers="$readers $!"
done
right=0
for reader in $readers; do wait $reader && right=$((right + 1)) || :; done
for n in 2 3 4 5 6 7 8 9; do cmp $folder/$n $folder/$n.read || [ $right -lt 8 ]; done
echo "$right of 8 parts are read after $((($(date +%s%N) - begin) / 1000000)) ms"
cat $folder/errors
