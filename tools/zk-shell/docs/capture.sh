#!/usr/bin/env bash
# Captures what `zk` shows in a terminal of 100 columns: first-session.txt and top-killed-leader.txt.
#
# It needs tmux, a newly started ensemble, and the program:
#   cargo xtask ensemble up && cargo build --bin zk && tools/zk-shell/docs/capture.sh && cargo xtask ensemble down
set -euo pipefail
cd "$(dirname "$0")"
zk=$(realpath "${ZK:-../../../target/debug/zk}")
work=$(mktemp -d)

ensemble() {
    ${ENSEMBLE:-cargo xtask ensemble} "$@"
}

tmux() {
    command tmux -L "zk-captures-$$" -f /dev/null "$@"
}

# Prints what the current terminal shows, without empty lines at the end.
screen() {
    local text
    text=$(tmux capture-pane -p -t "$terminal")
    echo "$text"
}

# Waits until the current terminal shows a pattern, at most 60 s.
shows() {
    local deadline=$((SECONDS + 60))
    # shellcheck disable=SC2053
    until [[ $(screen) == $1 ]]; do
        if ((SECONDS > deadline)); then
            printf 'no %s within 60 s:\n%s\n' "$1" "$(screen)" >&2
            exit 1
        fi
        sleep 0.1
    done
}

first_session() {
    terminal=shell
    tmux new-session -d -s "$terminal" -x 100 -y 40 -c "$work" "NO_COLOR=1 XDG_STATE_HOME=$work $zk"
    shows '*connected />'
    sed -n '/^A first session:/,/^```$/s/^[^>]*> //p' ../README.md | while read -r line; do
        tmux send-keys -t "$terminal" -l "$line"
        tmux send-keys -t "$terminal" Enter
        shows "*> $line"$'\n'*'>'
    done
    echo '$ zk'
    screen
}

killed_leader() {
    "$zk" create /load > "$work/created"
    printf 'set /load x\n%.0s' {1..20000} > "$work/load"
    tmux new-session -d -s load "while :; do $zk run --keep-going $work/load; done"
    terminal=top
    tmux new-session -d -s "$terminal" -x 100 -y 20 "$zk top"
    shows "* 3 of 3 servers serving, leader*$(printf '[▁▂▃▄▅▆▇█]%.0s' {1..15})*"
    echo '$ zk top'
    screen
    local killed
    killed=$(ensemble kill leader)
    printf '\n$ cargo xtask ensemble kill leader\n%s\n' "$killed"
    shows '* is down: *'
    screen
    echo
    shows '* down [5-9]s *, and no longer *'
    screen
    printf '\n$ cargo xtask ensemble start %s\n' "${killed//[^0-9]/}"
    ensemble start "${killed//[^0-9]/}"
    shows '* 3 of 3 servers serving* answers again *'
    screen
}

trap 'tmux kill-server || true; rm -r "$work"' EXIT
eval "$(ensemble env)"
export LC_ALL=C.UTF-8
first_session > first-session.txt
killed_leader > top-killed-leader.txt
