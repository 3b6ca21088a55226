# Runs one PostgreSQL cluster for a test process. Arguments: the folder of the server's binaries, an empty directory.
#
# Standard input carries the orders `start PORT` and `kill`. Only the test process holds its other end, so the end of
# input means that the test process has ended; the script then stops the server and removes the directory.
# The file `idle` exists while no process of the server is left and an order may come.
bin=$1 dir=$2 server=
cd "$dir" && exec >>log 2>&1 || exit 1
as=
if [ "$(id -u)" = 0 ]; then
    # PostgreSQL refuses to run as root. Unlike su and runuser, setpriv does not stay as a process of its own.
    as='setpriv --reuid=postgres --regid=postgres --init-groups --'
    chown postgres .
fi
mkfifo output
$as "$bin/initdb" --pgdata=data --username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync
: >idle
while read -r order port; do
    case $order in
    start)
        # Every process of the server holds this pipe open, so its end means that the last one has ended.
        { cat output; : >idle; } >>log &
        # Tests kill processes, not the machine: what the server wrote stays with the operating system, flushed or not.
        # Other kinds of dynamic shared memory would outlive a killed server outside of the directory.
        $as "$bin/postgres" -D "$dir/data" -p "$port" -k "$dir" -c listen_addresses=127.0.0.1 \
            -c max_connections=200 -c shared_buffers=16MB -c dynamic_shared_memory_type=mmap \
            -c fsync=off -c full_page_writes=off \
            </dev/null >output 2>&1 &
        server=$!
        ;;
    # `wait` removes the zombie process, which the next server would mistake for a running one.
    kill) kill -KILL "$server"; wait "$server"; server= ;;
    esac
done
if [ -n "$server" ]; then
    # QUIT ends the server at once, but the shell makes its children ignore it until they install handlers; TERM ends
    # a server that has not installed them yet.
    kill -TERM "$server"; kill -QUIT "$server"
fi
wait
if [ -f data/postmaster.pid ]; then
    # A killed server left its shared memory segment: the second word in line seven of its lock file.
    $as ipcrm -m "$(sed -n '7s/.* //p' data/postmaster.pid)"
fi
cd / && rm -rf "$dir"
