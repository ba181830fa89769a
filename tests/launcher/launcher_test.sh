#!/usr/bin/env bash
# launcher_test.sh ROOT: what ./gx says, without installing or building anything.
set -uo pipefail
gx=$1/gx
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place" || exit 1
. "$1/tests/launcher/expect.sh"

expect "no command gives the help" 0 "./gx demo     train one network" "$gx"
expect "help" 0 "./gx doctor   list what" "$gx" help
expect "help of a command" 0 "--preset NAME" "$gx" help test
for command in demo test bench predict plan records classify test-io fuzz doctor \
    cuda-headers cuda-plans gpu; do
    expect "$command --help" 0 "./gx $command" "$gx" "$command" --help
    expect "$command --help tells of --json" 0 "  --json FILE   write" "$gx" "$command" --help
    expect "$command to a folder that is not there" 2 "choose a file in a folder that exists" \
        "$gx" "$command" --json nowhere/file.json
done
expect "a misspelt command" 2 "unknown command 'tset'. Did you mean 'test'?" "$gx" tset
expect "a command like no other" 2 "unknown command 'xyzzyplugh'. There are: demo" "$gx" xyzzyplugh
expect "a misspelt option" 2 "Did you mean '--preset'?" "$gx" test --prest dev
expect "a misspelt preset" 2 "Did you mean 'asan'?" "$gx" test --preset azan
expect "a misspelt benchmark" 2 "unknown benchmark 'stpe'" "$gx" bench stpe
expect "an option without its value" 2 "--json: a file name is missing" "$gx" doctor --json
expect "an empty value" 2 "--json: the value is empty" "$gx" doctor --json=
expect "an option given twice" 2 "--json: this option is given twice" \
    "$gx" doctor --json a.json --json=a.json
expect "a preset given twice" 2 "--preset: this option is given twice" \
    "$gx" test --preset dev --preset dev
expect "an empty preset" 2 "--preset: the value is empty" "$gx" test --preset=
expect "a value for an option without one" 2 "gx: --matrix takes no value" "$gx" test --matrix=1
expect "a value for doctor's --yes" 2 "gx: --yes takes no value" "$gx" doctor --yes=1
expect "a misspelt row" 2 "Did you mean 'sanitized'?" "$gx" test --row sanitised
expect "a row and a preset" 2 "choose one: --matrix, --row NAME" "$gx" test --row asan --preset dev
expect "a row and the matrix" 2 "choose one: --matrix, --row NAME" "$gx" test --row asan --matrix
expect "a seed that is no number" 2 "--seed: 'one' is neither a whole number nor random" \
    "$gx" test --seed one
expect "a filter that is no regular expression" 2 "'[' is not a regex" "$gx" test --filter '['
expect "a misspelt option of a program, before it is built" 2 \
    "unknown option '--hold-ot'. Did you mean '--hold-out'? ./gx predict --options lists them" \
    "$gx" predict --hold-ot=3
expect "one of a benchmark" 2 "Did you mean '--sizes'? ./gx bench reduce --options lists them" \
    "$gx" bench reduce --size 3
expect "one of the demo on processes" 2 "unknown option '--nope'. ./gx demo --options lists them" \
    "$gx" demo --world mpi --nope
expect "doctor takes no other option" 2 "unknown option '--fix'" "$gx" doctor --fix

"$gx" doctor --json doctor.json >doctor.txt
expect "doctor names the compiler" 0 "  g++  " cat doctor.txt
expect "doctor's JSON" 0 "doctor" valid_json doctor.json command
expect "doctor's first check" 0 "system" valid_json doctor.json "checks 0 name"
expect "help's JSON" 0 "" "$gx" help --json help.json
expect "help's JSON is JSON" 0 "bench" valid_json help.json "commands 2"
expect "bench lists" 0 "Benchmarks" "$gx" bench --json bench.json
expect "bench's JSON" 0 "bench" valid_json bench.json command
mkdir pythons
for status in 0 1; do
    printf '#!/bin/sh\n[ "$3" != PIL ] || { echo 9.4.2; exit %d; }\n' $status >pythons/python3
    chmod +x pythons/python3
    ((status == 0)) || sed -i 's/echo 9.4.2; //' pythons/python3
    PATH=$PWD/pythons:$PATH "$gx" doctor >"pillow$status.txt"
done
expect "Pillow of the python3 that is found first" 0 "  python3-pil               9.4.2" \
    cat pillow0.txt
expect "Pillow that python3 cannot import" 0 "  python3-pil               missing (optional)" \
    cat pillow1.txt
cp doctor.json broken.json && printf '{"command": ' >broken.json
expect "this test can tell JSON from a torn file" 1 "" valid_json broken.json command

# ---- Output files: links, modes, pipes, devices -------------------------------------------------
mkdir out && cd out || exit 1
expect "a folder as output" 2 "is a folder" "$gx" help --json "$PWD"
echo old >target && chmod 640 target && ln -s target link
expect "a symbolic link" 0 "" "$gx" help --json link
[[ -L link && $(stat -c %a target) == 640 ]] && grep -q '"command": "help"' target ||
    fail "a link is kept, its target replaced, and the target's mode kept"
ln -s nowhere/at/all broken
expect "a link into a folder that is not there" 2 "choose a file in a folder" \
    "$gx" help --json broken
mkfifo pipe
timeout 20 cat pipe >piped &
expect "a named pipe" 0 "" timeout 20 "$gx" help --json pipe
wait $!
[[ -p pipe ]] && grep -q '"command": "help"' piped || fail "a pipe stays a pipe and is written to"
"$gx" help --json /dev/stdout >redirected
grep -q '"command": "help"' redirected && grep -q './gx demo' redirected ||
    fail "standard output is appended to, where it is a file"
if mknod null c 1 3 2>/dev/null && : 2>/dev/null >null; then  # a node of this test's own
    expect "a character device" 0 "" "$gx" help --json null
    [[ -c null ]] || fail "a device stays a device"
fi
[[ -z $(echo ./*.tmp | grep -v '\*') ]] || fail "no temporary file is left"
cd ..

# ---- Rows of the matrix, on stand-ins for the tools ----------------------------------------------
mkdir -p tree/.ci tools
cp "$gx" "$1/CMakePresets.json" tree
cat >tree/.ci/matrix <<'ROWS'
# a comment
good   matrix asan 1
    core\.a_test
    core\.b_.*
    gx_program
    sim\.d_test
bad    matrix tsan 1
broken run    dev  1
late   run    release 1
ROWS
cat >tools/tool <<'TOOL'
#!/bin/bash
# What dpkg-query, cmake, ninja and ctest print, as far as the launcher reads it.
case ${0##*/} in
dpkg-query) shift 3; for name in "$@"; do echo "installed:$name"; done ;;
cmake) mkdir -p "build/$2" && touch "build/$2/CMakeCache.txt" "build/$2/build.ninja"
    echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >"build/$2/CMakeCache.txt" ;;
mpirun.openmpi | mpiexec.mpich) echo "${0##*/} $*" ;;
ninja) [[ $* != *"-t query"* || -z ${LACKING:-} ]] || exit 1
    [[ $* != *"-t targets"* ]] || printf '%s\n' 'core.a_test: phony' 'core.b_test: phony' \
        'sim.c_test: phony' 'gx_program: CXX_EXECUTABLE_LINKER__gx_program_Release' \
        'tests/gx_program: phony'
    echo "$@" >>tools.log
    [[ $* != *build/dev* || $* == *"-t targets"* ]] ;;
timeout) [[ $* != *build/release* ]] || exit 124
    exec "${@:3}" ;;
ctest) echo "$@" >>tools.log
    echo "1/2 Test #1: core.a_test ...............   Passed    0.01 sec"
    [[ $* == *tsan* ]] || exit 0
    echo "2/2 Test #2: core.b_test ...........***Failed    0.01 sec"
    exit 8 ;;
esac
TOOL
chmod +x tools/tool
for tool in dpkg-query cmake ninja ctest timeout mpirun.openmpi mpiexec.mpich; do
    ln -s tool "tools/$tool"
done
stand_in() { env PATH="$place/tools:$PATH" "$place/tree/gx" test --yes "$@"; }
expect "a row that passes" 0 "good       asan     passed        1       0" stand_in --row good
expect "it builds and runs what matches" 0 \
    "-R ^(core\\.a_test|core\\.b_.*|gx_program|sim\\.d_test)\$" cat tree/tools.log
expect "and a program that no folder of the build holds" 0 \
    "core.a_test core.b_test gx_program" grep -v -e -t tree/tools.log
expect "what matches nothing is told" 0 \
    "row good of .ci/matrix: 'sim\\.d_test' matches no test of this machine" stand_in --row good
expect "and nothing else" 1 "" grep sim.c_test tree/tools.log
expect "the matrix" 1 "bad        tsan     FAILED        2       1" \
    stand_in --matrix --json "$place/rows.json"
expect "its JSON: rows" 0 "passed" valid_json rows.json "rows 0 outcome"
expect "its JSON: names" 0 "core.b_test" valid_json rows.json "rows 1 failed_tests 0"
expect "its JSON: rows of .ci/run are not in it" 1 "" valid_json rows.json "rows 2"
expect "a row that does not build" 1 "broken     dev      FAILED        0" stand_in --row broken
expect "a row that takes too long" 1 "late       release  timeout       0" stand_in --row late
expect "no row, one preset" 1 "" stand_in --preset tsan --json "$place/one.json"
expect "its JSON as before" 0 "1" valid_json one.json failed
mv tree/build/logs kept_logs
touch tree/build/logs
expect "a tree that cannot be written" 2 "/build/logs/test-good.log': gx builds in its own folder" \
    stand_in --row good
rm tree/build/logs
mv kept_logs tree/build/logs
sum=$(awk '$2 == "matrix" { sum += $4 } END { print sum }' "$1/.ci/matrix")
((sum <= 60)) || fail "the limits of the matrix add up to $sum min, above 60"
for preset in $(awk '/^[a-z]/ { print $3 }' "$1/.ci/matrix"); do
    variables=$(cmake -S "$1" --preset "$preset" -N 2>&1) && [[ $variables == *Preset* ]] ||
        fail "preset $preset of .ci/matrix: $variables"
    [[ $variables != *'GX_BUILD_TESTS="OFF"'* ]] ||
        fail "preset $preset of .ci/matrix builds no tests"
done
expect ".ci/run ends with the row of the sanitizer" 0 "--row sanitized" tail -n 1 "$1/.ci/run"

# ---- The demo on MPI, and all benchmarks, on the same stand-ins ---------------------------------
demo() { env PATH="$place/tools:$PATH" "$place/tree/gx" demo --yes "$@"; }
made=$(readlink -f tree)/build/release
options='--bind-to none --oversubscribe'
as_root=''
((EUID != 0)) || as_root=' --allow-run-as-root'
expect "the demo on two processes" 0 \
    "mpirun.openmpi $options -n 2$as_root $made/gx_demo_openmpi --epochs 3 --json $place/a" \
    demo --world mpi --epochs 3 --json a
expect "it builds that program" 0 "gx_demo_openmpi" grep -- "-C build/release -j" tree/tools.log
expect "the demo under MPICH" 0 \
    "mpiexec.mpich -n 12 setsid --wait $made/gx_demo_mpich --seed=2" \
    demo --world=mpi -n 12 --mpi mpich --seed=2
expect "no process" 2 "-n: '0' is not a whole number from 1 to 9999" demo --world mpi -n 0
expect "no number of processes" 2 "-n wants a value; see ./gx demo --help" demo --world mpi -n
expect "an empty world" 2 "--world: the value is empty" demo --world=
expect "two worlds" 2 "--world: this option is given twice" demo --world mpi --world mpi
expect "a misspelt world" 2 "unknown world 'simulate'. Did you mean 'simulated'?" \
    demo --world simulate
expect "an empty word is the program's to refuse" 0 \
    "mpirun.openmpi $options -n 2$as_root $made/gx_demo_openmpi  =x" demo --world mpi "" =x
expect "another MPI" 2 "unknown MPI 'lam'. There are: openmpi mpich" demo --world mpi --mpi lam
expect "processes of a simulated world" 2 "-n and --mpi are for --world mpi: add it" demo -n 4
expect "no MPI" 2 "--world mpi: this system has no openmpi: expected mpirun.openmpi" \
    env LACKING=1 PATH="$place/tools:$PATH" "$place/tree/gx" demo --yes --world mpi
mkdir -p tree/tests/benchmarks tree/build/release
for name in one two; do
    echo "// $name" >"tree/tests/benchmarks/$name.cpp"
    printf '#!/bin/bash\n%s\necho {} >"$2"\n' \
        '[[ $0 != *two ]] || { echo "no root: $GX_COMMAND"; exit 77; }' \
        >"tree/build/release/gx_bench_$name" && chmod +x "tree/build/release/gx_bench_$name"
done
bench() { env PATH="$place/tools:$PATH" "$place/tree/gx" bench "$@" --yes; }
expect "a benchmark that can't run here is no failure of all" 0 "bench two: skipped" bench all
expect "alone it has its status" 77 "no root" bench two
expect "and knows how it was called" 77 "no root: ./gx bench two" bench two

# Without root and without sudo the packages are named and nothing is attempted. A PATH of stand-ins
# plays a machine that has apt, lacks every package, and is used by a plain user.
mkdir bin
for tool in bash cat sed awk grep head sort readlink dirname nproc mkdir mv rm ls tail; do
    ln -s "$(command -v "$tool")" "bin/$tool"
done
printf '#!/bin/bash\nexit 1\n' >bin/dpkg-query
printf '#!/bin/bash\necho "apt-get must not run" >&2; exit 9\n' >bin/apt-get
chmod +x bin/dpkg-query bin/apt-get
as_user=()
((EUID != 0)) || as_user=(setpriv --reuid 65534 --clear-groups)
chmod a+rx "$place"
# Where the checkout lies below a folder that only root may enter, this part cannot be played.
if "${as_user[@]}" "$(command -v test)" -r "$gx"; then
    expect "neither root nor sudo" 2 "there is neither root nor sudo" \
        "${as_user[@]}" env PATH="$place/bin" bash "$gx" test --yes
fi

((failures == 0)) && echo "the launcher keeps its promises"
exit $((failures > 0))
