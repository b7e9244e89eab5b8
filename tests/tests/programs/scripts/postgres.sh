# A database over RDMA: rows that come back as they went, and pgbench's transactions, whose sums must agree. PostgreSQL
# has a process for each connection, for which the first process relays: with `only`, for more than one connection. It
# refuses to run as root. Its clients run as its user, because processes of two users do not share an address.
postgres=$(printf '%s\n' /usr/lib/postgresql/*/bin | tail -n 1)
export PGHOST=10.9.9.1 PGPORT=5433 PGUSER=me PGDATABASE=postgres PATH=$postgres:$PATH
as=
if test "$(id -u)" = 0; then
    chown 1:1 .
    as='setpriv --reuid 1 --regid 1 --clear-groups'
fi
# shellcheck disable=SC2086 # A command and its arguments, or nothing.
$as initdb -D "$PWD/data" -A trust -U me --no-sync >initdb.log
echo 'host all all 10.9.9.0/24 trust' >>data/pg_hba.conf
# shellcheck disable=SC2086 # The same.
ROCE_SOCKETS=loopback,only $as postgres -D "$PWD/data" -h 10.9.9.1 -p 5433 -k '' -c fsync=off & server=$!
listening 5433
client() {
    # shellcheck disable=SC2086 # The same.
    $as "$@"
}
until_served client psql -q -c 'select 1' >ready.log
seq 1 50000 | awk '{ printf "%d\t%032x\n", $1, $1 * 7919 }' >rows
client psql -q -c 'create table numbers (number int primary key, words varchar(40))'
client psql -q -c "\\copy numbers from 'rows'"
client psql -q -c '\copy (select * from numbers order by number) to stdout' | cmp - rows
echo 'rows are the same'
client pgbench -i -q
client pgbench -n -c 4 -t 50
client pgbench -n -c 4 -t 200 -S
client psql -A -t -c "select 'balances agree: ' ||
    ((select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)
    and (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history)
    and (select count(*) from pgbench_history) = 200)"
kill -INT $server
wait $server
