# cmake -D BUILD=... -D COMPILER=... -P: compiles tests of gx::onednn with oneDNN 3.2 of PyPI, which
# lies in BUILD/onednn-3, header-only, and runs them. Prints `skipped: WHY` where it can't be had.
cmake_minimum_required(VERSION 3.25)
set(place ${BUILD}/onednn-3)
set(root ${CMAKE_CURRENT_LIST_DIR}/../../..)

function(must what)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE text ERROR_VARIABLE text RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "could not ${what}: ${ARGN}\nended with ${status}:\n${text}")
  endif()
endfunction()

# ---- The library: of an earlier run, or of PyPI ------------------------------------------
if(NOT EXISTS ${place}/complete)
  file(REMOVE_RECURSE ${place})
  find_program(PYTHON python3)
  if(PYTHON)
    execute_process(COMMAND ${PYTHON} -m venv ${place}/venv RESULT_VARIABLE status OUTPUT_QUIET
                    ERROR_QUIET)
  endif()
  if(NOT PYTHON OR NOT status EQUAL 0)
    message("skipped: there is no python3 with venv to fetch oneDNN 3 with: install python3-venv")
    return()
  endif()
  execute_process(COMMAND ${place}/venv/bin/pip download --quiet --retries 1 --timeout 20
                          --no-deps --only-binary=:all: --dest ${place}/wheels
                          onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0
                  TIMEOUT 120 RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE why)
  if(NOT status EQUAL 0)
    message("skipped: there is no oneDNN 3, and PyPI could not be reached: ${why}")
    return()
  endif()
  file(GLOB wheels ${place}/wheels/*.whl)
  foreach(wheel IN LISTS wheels)
    file(ARCHIVE_EXTRACT INPUT ${wheel} DESTINATION ${place}/unpacked)
  endforeach()
  file(GLOB parts ${place}/unpacked/*.data/data)
  foreach(part IN LISTS parts)
    file(COPY ${part}/ DESTINATION ${place})
  endforeach()
  file(REMOVE_RECURSE ${place}/venv ${place}/wheels ${place}/unpacked)
  file(TOUCH ${place}/complete)
endif()

# ---- The tests ----------------------------------------------------------------------------
set(include)
foreach(folder include reference/include sims/include plugins/onednn/include plugins/onednn tests)
  list(APPEND include -I${root}/${folder})
endforeach()
foreach(test desc device_agreement device_bf16)
  set(program ${place}/${test}_test)
  must("compile" ${COMPILER} -std=c++20 -O1 -Wall -Wextra -Werror -DGX_HEADER_ONLY
       -D_GLIBCXX_BITS_SPECFUN_H -isystem ${place}/include ${include}
       ${CMAKE_CURRENT_LIST_DIR}/${test}_test.cpp -o ${program} -L${place}/lib
       -Wl,-rpath,${place}/lib -lgmock -lgtest -lgtest_main -lrapidcheck -lfmt -lz -ldnnl -fopenmp
       -pthread)
  must("pass" ${program})
endforeach()
