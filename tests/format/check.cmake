# cmake -D FORMATTER=... -D ROOT=... -P: clang-format 19, with the tree's .clang-format, changes no
# source. Skipped, with a reason, if it is not installed.
cmake_minimum_required(VERSION 3.25)
if(NOT FORMATTER)
  message("skipped: clang-format-19 is missing")
  return()
endif()
set(sources "")
foreach(top include sims reference plugins examples tests conan)
  file(GLOB_RECURSE found ${ROOT}/${top}/*.hpp ${ROOT}/${top}/*.ipp ${ROOT}/${top}/*.cpp
       ${ROOT}/${top}/*.cu ${ROOT}/${top}/*.cuh)
  list(APPEND sources ${found})
endforeach()
list(LENGTH sources count)
if(count LESS 300)
  message(FATAL_ERROR "only ${count} sources below ${ROOT}: is this the checkout?")
endif()
execute_process(COMMAND ${FORMATTER} --dry-run -Werror --style=file ${sources}
                ERROR_VARIABLE text RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  string(SUBSTRING "${text}" 0 4000 text)
  message(FATAL_ERROR "not formatted; run ${FORMATTER} -i on these files:\n${text}")
endif()
message("${count} sources are formatted")
