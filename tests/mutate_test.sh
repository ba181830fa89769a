#!/usr/bin/env bash
# mutate_test.sh MUTATE_PY: verdicts, exit statuses and interruption of mutate.py, on a small tree
# whose headers are shell scripts and whose compiler copies them; and what --check of
# mechanical_mutants.py beside it says of mutants that were not run.
set -uo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir -p "$place/include/gx" "$place/sims/include/gx/sim" "$place/tests"
cp "$1" "${1%/*}/mechanical_mutants.py" "$place/tests"
cd "$place" || exit 1
failures=0

# The program is the first copy of the header whose name the test holds.
cat >compiler <<'END'
#!/usr/bin/env bash
folders=()
while (($#)); do
    case $1 in
    -I*) folders+=("${1#-I}") ;;
    -o) program=$2 ;;
    -isystem) echo "$1 $2" >options ;;
    *_test.cpp) header=$(<"$1") folders+=("${1%/*}") ;;
    esac
    shift
done
for folder in "${folders[@]}"; do
    [[ -f $folder/$header ]] && text=$(<"$folder/$header") && break
done
[[ $text != *"syntax error"* ]] || { echo "no program of this"; exit 1; }
printf '#!/usr/bin/env bash\n%s\n' "$text" >"$program"
chmod +x "$program"
END
chmod +x compiler
printf 'a=1\nb=1\n((a == 1))\n' >include/gx/header.hpp
printf 'exit 0\n' >sims/include/gx/sim/other.hpp
printf 'gx/header.hpp' >tests/header_test.cpp
printf 'gx/sim/other.hpp' >tests/other_test.cpp
mkdir -p plugins/a/src/tests
printf 'exit 0\n' >plugins/a/src/own.hpp
printf '../own.hpp' >plugins/a/src/tests/own_test.cpp

# entry NAME HEADER TEST OLD NEW: one mutant.
entry() { printf '\n== %s\nin %s\nby %s\n-%s\n+%s\n' "$@"; }

# expect NAME STATUS TEXT [ARGUMENT...]: mutate.py ends with STATUS and prints TEXT somewhere.
expect() {
    local name=$1 status=$2 text=$3 printed got=0
    shift 3
    printed=$(tests/mutate.py tests/mutants.txt --compiler ./compiler "$@" 2>&1) || got=$?
    if ((got != status)) || [[ $printed != *"$text"* ]]; then
        printf 'FAILED %s: status %d (wanted %d), wanted the text\n    %s\ngot\n%s\n' \
            "$name" "$got" "$status" "$text" "$printed"
        failures=$((failures + 1))
    fi
}

{
    entry "a is two" gx/header.hpp header_test.cpp "a=1" "a=2"
    entry "the exit status" gx/sim/other.hpp other_test.cpp "exit 0" "exit 1"
    entry "a header of its folder" plugins/a/src/own.hpp ../plugins/a/src/tests/own_test.cpp \
        "exit 0" "exit 1"
} >tests/mutants.txt
expect "all rejected" 0 "3 of 3 rejected"
expect "one chosen" 0 "1 of 1 rejected" --only "exit status"
expect "no compiler" 2 "does not compile with the unchanged headers" --compiler ./none
expect "none chosen" 2 "has 'nothing' in its name" --only nothing

{
    entry "a is two" gx/header.hpp header_test.cpp "a=1" "a=2"
    entry "b is two" gx/header.hpp header_test.cpp "b=1" "b=2"
} >tests/mutants.txt
expect "a survivor" 1 "SURVIVES         b is two"
expect "the share with a survivor" 1 "1 of 2 rejected"

entry "no program" gx/header.hpp header_test.cpp "a=1" "syntax error" >tests/mutants.txt
expect "a mutant that does not compile" 1 "DOES NOT COMPILE no program"

{
    entry "gone" gx/header.hpp header_test.cpp "c=1" "c=2"
    entry "twice" gx/header.hpp header_test.cpp "=1" "=2"
    entry "no header" gx/none.hpp header_test.cpp "a=1" "a=2"
    entry "no test" gx/header.hpp none_test.cpp "a=1" "a=2"
    entry "same" gx/header.hpp header_test.cpp "a=1" "a=1"
} >tests/mutants.txt
expect "a text that is gone" 2 "'gone': its text occurs 0 times"
expect "a text that occurs twice" 2 "'twice': its text occurs 2 times"
expect "a header that is gone" 2 "'no header': no include folder has gx/none.hpp"
expect "a test that is gone" 2 "'no test': there is no test tests/none_test.cpp"
expect "no change" 2 "'same' changes nothing"

# A header of an outside library: the first folder that has it, also by the environment.
searched() {
    [[ $(<options) == "-isystem $1" ]] && return
    echo "FAILED $1 is not searched"
    failures=$((failures + 1))
}
{
    printf 'outside lib.h $GX_NONE/include $GX_LIB/include kept/include\n'
    entry "of an outside header" gx/header.hpp header_test.cpp "a=1" "a=2"
} >tests/mutants.txt
expect "an outside header that is missing" 2 "lib.h is in none of"
mkdir -p kept/include installed/include
touch {kept,installed}/include/lib.h
expect "an outside header below the project" 0 "1 of 1 rejected"
searched "$place/kept/include"
GX_LIB=$place/installed expect "an outside header by the environment" 0 "1 of 1 rejected"
searched "$place/installed/include"

entry "status" gx/sim/other.hpp other_test.cpp "exit 0" "exit 1" >tests/mutants.txt
printf 'exit 1\n' >sims/include/gx/sim/other.hpp
sed -i 's/^-exit 0/-exit 1/; s/^+exit 1/+exit 2/' tests/mutants.txt
expect "a test that fails unchanged" 2 "tests/other_test.cpp fails with the unchanged headers"

# A mutant that runs on, and its child, end with an interrupted mutate.py: both hold the pipe open.
mkfifo pipe
entry "endless" gx/header.hpp header_test.cpp "((a == 1))" \
    "{ echo begun; (while :; do :; done) & while :; do :; done; } >'$place/pipe'" \
    >tests/mutants.txt
tests/mutate.py tests/mutants.txt --compiler ./compiler >interrupted.txt 2>&1 &
runner=$!
{
    read -r begun
    kill -TERM "$runner"
    cat >rest.txt  # ends when no process has the pipe open
} <pipe
status=0
wait "$runner" || status=$?
if [[ $begun != begun || $status != 130 ]]; then
    printf 'FAILED interruption: status %d (wanted 130), printed\n' "$status"
    cat interrupted.txt
    failures=$((failures + 1))
fi

# Mutants that were not run are named, the first ten, with the command that runs them.
check=(tests/mechanical_mutants.py plugins/a --results results.txt)
touch plugins/a/CMakeLists.txt
bounds() { for ((n = 1; n <= $1; n++)); do echo "bool b$n = $n < c;"; done >plugins/a/src/b.cpp; }
not_known() {
    local printed got=0 of
    printed=$("${check[@]}" --check) || got=$?
    of=$(grep -A 99 '^not known' <<<"$printed")
    [[ $got == "$1" && $of == "$2" ]] && return
    printf 'FAILED mutants that are not known: status %d (wanted %d), wanted\n%s\ngot\n%s\n' \
        "$got" "$1" "$2" "$printed"
    failures=$((failures + 1))
}
named() { for n in $(seq "$1" "$2"); do echo "not known: bound plugins/a/src/b.cpp:$n: <"; done; }
bounds 12
not_known 1 "$(named 1 10)
not known: 2 more
Their code has changed since they were run, or is new. To run them: ${check[*]}"
bounds 1
around=$(printf 'boolb1=1<c;\n' | sha256sum)
printf 'bound plugins/a/src/b.cpp:1: <\n    %.8s rejected by a test\n' "$around" >results.txt
not_known 0 ""

((failures == 0)) && echo "mutate.py: all cases passed"
exit $((failures > 0))
