# Keeps one PostgreSQL cluster for a test process. Arguments: the server's binaries, an empty directory.
#
# Orders come by standard input, of which only the test process holds the other end: `start PORT` and `kill`.
# Its end means that the process is gone, however it went; then nothing of the cluster stays.
# The file `idle` exists whenever an order may come and no process of the server is left.
bin=$1 dir=$2 server=
cd "$dir" && exec >>log 2>&1 || exit 1
as=
if [ "$(id -u)" = 0 ]; then
    # PostgreSQL refuses to run as root. Unlike su and runuser, setpriv stays no process of its own.
    as='setpriv --reuid=postgres --regid=postgres --init-groups --'
    chown postgres .
fi
mkfifo output
$as "$bin/initdb" --pgdata=data --username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync
: >idle
while read -r order port; do
    case $order in
    start)
        # Every process of the server holds this pipe open, so its end means that the last one is gone.
        { cat output; : >idle; } >>log &
        # Other kinds of dynamic shared memory would outlive a killed server outside of the directory.
        $as "$bin/postgres" -D "$dir/data" -p "$port" -k "$dir" -c listen_addresses=127.0.0.1 \
            -c max_connections=200 -c shared_buffers=16MB -c dynamic_shared_memory_type=mmap \
            </dev/null >output 2>&1 &
        server=$!
        ;;
    # Waiting takes the dead process off the table, where the next server would mistake it for a living one.
    kill) kill -KILL "$server"; wait "$server"; server= ;;
    esac
done
if [ -n "$server" ]; then
    # QUIT ends it at once, but the shell makes its children ignore it; TERM ends one not yet prepared for either.
    kill -TERM "$server"; kill -QUIT "$server"
fi
wait
if [ -f data/postmaster.pid ]; then
    # A killed server left its shared memory segment: the second word in line seven of its lock file.
    $as ipcrm -m "$(sed -n '7s/.* //p' data/postmaster.pid)"
fi
cd / && rm -rf "$dir"
