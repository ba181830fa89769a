# cmake -D NM=... -D LIBRARY=... -D README=... -P: the table below "## Functions" names each
# function of the runtime that the library has, and no other.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${NM} --defined-only ${LIBRARY} OUTPUT_VARIABLE symbols
                ERROR_VARIABLE errors RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${NM} does not read ${LIBRARY}: ${errors}")
endif()
string(REGEX MATCHALL " T cuda[A-Za-z0-9]+\n" has "${symbols}")
list(TRANSFORM has REPLACE " T (cuda[A-Za-z0-9]+)\n" "\\1")
file(READ ${README} text)
string(REGEX REPLACE ".*\n## Functions\n" "" text "${text}")
string(REGEX REPLACE "\n\n[^|].*" "" text "${text}")
string(REGEX MATCHALL "cuda[A-Z][A-Za-z0-9]+" named "${text}")
set(missing ${has})
list(REMOVE_ITEM missing ${named})
set(others ${named})
list(REMOVE_ITEM others ${has})
list(LENGTH has count)
if(missing OR others OR count EQUAL 0)
  message(FATAL_ERROR "${README}: of ${count} functions of ${LIBRARY} the table lacks "
                      "'${missing}'; it names '${others}', which the library has not")
endif()
message("the table names ${count} functions")
