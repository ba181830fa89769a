#!/usr/bin/env bash
# launcher_test.sh ROOT: what ./gx says, without installing or building anything.
set -uo pipefail
gx=$1/gx
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place" || exit 1
failures=0

# expect NAME STATUS TEXT COMMAND...: the command ends with STATUS and prints TEXT somewhere.
expect() {
    local name=$1 status=$2 text=$3 printed got=0
    shift 3
    printed=$("$@" 2>&1 </dev/null) || got=$?
    if ((got != status)) || [[ $printed != *"$text"* ]]; then
        printf 'FAILED %s: status %d (wanted %d), wanted the text\n    %s\ngot\n%s\n' \
            "$name" "$got" "$status" "$text" "$printed"
        failures=$((failures + 1))
    fi
}

# valid_json FILE: checked by CMake, which reads JSON and is there wherever this test runs.
valid_json() {
    printf 'file(READ "%s" text)\nstring(JSON value GET "${text}" %s)\nmessage("${value}")\n' \
        "$PWD/$1" "$2" >read.cmake
    cmake -P read.cmake
}

expect "no command gives the help" 0 "./gx demo     train one network" "$gx"
expect "help" 0 "./gx doctor   say what" "$gx" help
expect "help of a command" 0 "--preset NAME" "$gx" help test
for command in demo test bench predict plan fuzz doctor; do
    expect "$command --help" 0 "./gx $command" "$gx" "$command" --help
    expect "$command to a folder that is not there" 2 "choose a file in a folder that exists" \
        "$gx" "$command" --json nowhere/file.json
done
expect "a misspelt command" 2 "unknown command 'tset'. Did you mean 'test'?" "$gx" tset
expect "a command like no other" 2 "unknown command 'xyzzyplugh'. There are: demo" "$gx" xyzzyplugh
expect "a misspelt option" 2 "Did you mean '--preset'?" "$gx" test --prest dev
expect "a misspelt preset" 2 "Did you mean 'asan'?" "$gx" test --preset azan
expect "a misspelt benchmark" 2 "unknown benchmark 'stpe'" "$gx" bench stpe
expect "an option without its value" 2 "--json wants a file name" "$gx" doctor --json
expect "doctor takes no other option" 2 "unknown option '--fix'" "$gx" doctor --fix

"$gx" doctor --json doctor.json >doctor.txt
expect "doctor names the compiler" 0 "compiler" cat doctor.txt
expect "doctor's JSON" 0 "doctor" valid_json doctor.json command
expect "doctor's first check" 0 "system" valid_json doctor.json "checks 0 name"
expect "help's JSON" 0 "" "$gx" help --json help.json
expect "help's JSON is JSON" 0 "bench" valid_json help.json "commands 2"
expect "bench lists" 0 "Benchmarks" "$gx" bench --json bench.json
expect "bench's JSON" 0 "bench" valid_json bench.json command
cp doctor.json broken.json && printf '{"command": ' >broken.json
expect "this test can tell JSON from a torn file" 1 "" valid_json broken.json command

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
