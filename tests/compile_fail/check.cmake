# cmake -D COMPILER=... -D SOURCE=... -D INCLUDES=a:b [-D PRECOMPILED=OPTION:FILE] -P: a program
# that must not compile, and must say so well. Lines of the source state it:
#     // expect: TEXT   in the first line with an error
#     // near: TEXT     in that line or the note behind it; `near gcc:` and `near clang:` for one
#     // later: TEXT    in any line with an error
#     // errors: N      at most so many lines with an error
# Bodies that gx::compiled holds are left out: no error of these programs lies in them.
# A source without `// expect:` is a control: it must compile, so that a wrong include folder or
# a slip of the pen cannot make the others pass.
cmake_minimum_required(VERSION 3.25)
string(REPLACE ":" ";-I" folders "${INCLUDES}")
string(REPLACE ":" ";" precompiled "${PRECOMPILED}")
file(READ ${SOURCE} source)
set(kind gcc)
set(quiet -fno-diagnostics-show-caret)  # notes stand right behind their error
if(COMPILER MATCHES "clang")
  set(kind clang)
  set(quiet -fno-caret-diagnostics -ferror-limit=0)
endif()
# texts(OUT KEY...): what the lines `// KEY: TEXT` of the source hold.
function(texts out)
  set(all "")
  foreach(key IN LISTS ARGN)
    string(REGEX MATCHALL "// ${key}: [^\n]*" lines "${source}")
    list(TRANSFORM lines REPLACE "^// ${key}: *" "")
    list(APPEND all ${lines})
  endforeach()
  set(${out} "${all}" PARENT_SCOPE)
endfunction()
string(REPLACE ";" "," source "${source}")
string(REGEX REPLACE "[][]" "|" source "${source}")
texts(expected expect)
texts(near near "near ${kind}")
texts(later later)
texts(most errors)
execute_process(
  COMMAND ${COMPILER} -std=c++20 -DGX_COMPILED -fsyntax-only ${quiet} -fmessage-length=0
          ${precompiled} -I${folders} ${SOURCE}
  OUTPUT_VARIABLE text ERROR_VARIABLE text RESULT_VARIABLE status)
if(NOT expected)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${SOURCE} is a control and must compile:\n${text}")
  endif()
  return()
endif()
if(status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles, and must not")
endif()
string(REPLACE ";" "," text "${text}")
string(REGEX REPLACE "[][]" "|" text "${text}")
string(REPLACE "\\'" "'" text "${text}")
string(REGEX MATCHALL "[^\n]*error: [^\n]*" errors "${text}")
if(NOT errors)
  message(FATAL_ERROR "${SOURCE}: the compiler ended with ${status} and no error:\n${text}")
endif()
list(GET errors 0 first)
list(LENGTH errors count)

# must_hold(WHERE TEXT...): each text is a part of `where`.
function(must_hold name where)
  foreach(line IN LISTS ARGN)
    string(FIND "${where}" "${line}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "${SOURCE}: ${name}\n    ${where}\nand should hold\n    ${line}")
    endif()
  endforeach()
endfunction()
must_hold("the first error is" "${first}" ${expected})
must_hold("the errors are" "${errors}" ${later})
string(FIND "${text}" "${first}" at)
string(SUBSTRING "${text}" ${at} -1 behind)
string(REGEX MATCH "^[^\n]*\n([^\n]*note: [^\n]*\n)?" behind "${behind}")
must_hold("the first error and its note are" "${behind}" ${near})
if(most AND count GREATER most)
  message(FATAL_ERROR "${SOURCE}: ${count} errors, and at most ${most} were expected:\n${text}")
endif()
