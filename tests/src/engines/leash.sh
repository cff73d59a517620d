# Runs one engine in namespaces of its own. It ends when its standard input is closed, and answers each line read
# from there with one line on standard output.
#
#   leash.sh keep ROOM STORAGE PROGRAM...    starts the engine, waits for its end and removes all it leaves
#   leash.sh remove ROOM                     removes what a killed `keep` has left
#
# `apart` and `serve` are steps of `keep`, each in more namespaces than the one before.

step=$1 room=$2 storage=$3
script=$room/leash.sh
group=$(basename "$room")

# The roots of the trees of cgroups: one, or one for each controller.
trees() {
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        echo /sys/fs/cgroup
        return
    fi
    for tree in /sys/fs/cgroup/*; do
        [ ! -L "$tree" ] && [ -e "$tree/cgroup.procs" ] && echo "$tree"
    done
}

# Hands down every controller a v2 group has. One that cannot be is one the engine does without.
hand_down() {
    [ -e "$1/cgroup.controllers" ] || return
    for controller in $(cat "$1/cgroup.controllers"); do
        echo "+$controller" >"$1/cgroup.subtree_control"
    done 2>/dev/null
}

# Becomes a member of a group of the engine's own in every tree.
join() {
    for tree in $(trees); do
        hand_down "$tree"
        mkdir -p "$tree/$group"
        if [ -e "$tree/cpuset.cpus" ]; then
            cat "$tree/cpuset.cpus" >"$tree/$group/cpuset.cpus"
            cat "$tree/cpuset.mems" >"$tree/$group/cpuset.mems"
        fi 2>/dev/null
        echo 0 >"$tree/$group/cgroup.procs"
    done
}

# Killed processes leave their groups a moment later, and nothing tells when.
remove() {
    for tree in $(trees); do
        for attempt in $(seq 100); do
            [ -d "$tree/$group" ] || break
            find "$tree/$group" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.02
        done
    done
    rm -rf --one-file-system "$room"
}

case $step in
keep)
    shift
    (join && exec unshare --cgroup bash "$script" apart "$@")
    remove
    ;;
remove)
    remove
    ;;
apart)
    # A v2 group may have members or hand down controllers, not both.
    for tree in $(trees); do
        [ -e "$tree/cgroup.controllers" ] || continue
        mkdir -p "$tree/$group/engine" && echo 0 >"$tree/$group/engine/cgroup.procs"
        hand_down "$tree/$group"
    done
    shift
    exec unshare --net --mount --pid --fork --kill-child --mount-proc bash "$script" serve "$@"
    ;;
serve)
    # The engine's groups are all it sees. What it keeps under fixed names, whatever it is told, goes with it.
    for tree in $(trees); do
        mount --bind "$tree/$group" "$tree"
    done
    mount -t tmpfs -o mode=755 none /run && mkdir /run/lock
    mount -t tmpfs -o mode=1777 none /dev/shm
    [ "$storage" = memory ] && mount -t tmpfs -o mode=755 none "$room/data"
    ip link set lo up
    # Some write to where they happen to be.
    cd "$room/data" || exit
    shift 3
    # As the first process of its namespace this shell waits for all that lose their parents; its end is the end of all.
    while read -r word flags; do
        case $word in
        start)
            # shellcheck disable=SC2086 # several flags are several words
            "$@" $flags </dev/null >&2 &
            engine=$!
            ;;
        kill | term)
            kill -s "$word" "$engine"
            wait "$engine"
            rm -f "$room/engine.pid"
            ;;
        esac
        echo done
    done
    ;;
esac
