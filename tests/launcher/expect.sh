# Checks of the launcher's tests, which read this file.
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

fail() {
    printf 'FAILED %s\n' "$*"
    failures=$((failures + 1))
}

# valid_json FILE: checked by CMake, which reads JSON and is there wherever this test runs.
valid_json() {
    printf 'file(READ "%s" text)\nstring(JSON value GET "${text}" %s)\nmessage("${value}")\n' \
        "$PWD/$1" "$2" >read.cmake
    cmake -P read.cmake
}
