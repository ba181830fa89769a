# cmake -D COMPILER=... -D SOURCE=... -D INCLUDES=a:b -P: a program that must not compile, and must
# say so well: the first line with an error holds the text of the source's `// expect:` lines.
# A source without `// expect:` is a control: it must compile, so that a wrong include folder or
# a slip of the pen cannot make the others pass.
cmake_minimum_required(VERSION 3.25)
string(REPLACE ":" ";-I" folders "${INCLUDES}")
file(STRINGS ${SOURCE} expected REGEX "^// expect:")
execute_process(
  COMMAND ${COMPILER} -std=c++20 -fsyntax-only -I${folders} ${SOURCE}
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
string(REGEX MATCH "[^\n]*(fatal )?error: [^\n]*" first "${text}")
if(first STREQUAL "")
  message(FATAL_ERROR "${SOURCE}: the compiler ended with ${status} and no error:\n${text}")
endif()
foreach(line IN LISTS expected)
  string(REGEX REPLACE "^// expect: *" "" line "${line}")
  string(FIND "${first}" "${line}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${SOURCE}: the first error is\n    ${first}\nand should hold\n    ${line}")
  endif()
endforeach()
