# cmake -D BUILD=... -D COMPILER=... -D ONEDNN=... -D DOUBLES=... -D FOLDERS=... -P: installs gx
# below its build folder, then configures, builds and runs the consumer against that copy alone.
cmake_minimum_required(VERSION 3.25)
set(place ${BUILD}/consumer)
file(REMOVE_RECURSE ${place})

function(must)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE text ERROR_VARIABLE text RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nended with ${status}:\n${text}")
  endif()
endfunction()

must(${CMAKE_COMMAND} --install ${BUILD} --prefix ${place}/prefix)
must(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${place}/build -G Ninja
     -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_PREFIX_PATH=${place}/prefix
     -D WITH_ONEDNN=${ONEDNN} -D WITH_CUDA_TESTING=${DOUBLES} ${FOLDERS})
must(${CMAKE_COMMAND} --build ${place}/build)
must(${place}/build/consumer)
if(EXISTS ${place}/build/on_mpi)
  must(${place}/build/on_mpi)
endif()
if(DOUBLES)
  must(${place}/build/on_cuda_testing)
endif()

# The installed headers, not those of the checkout, must have been used.
file(GLOB_RECURSE exports ${place}/prefix/*-targets.cmake)
foreach(export IN LISTS exports)
  file(STRINGS ${export} leaks REGEX "${CMAKE_CURRENT_LIST_DIR}/\\.\\./|${BUILD}/include")
  if(leaks)
    message(FATAL_ERROR "${export} names the checkout: ${leaks}")
  endif()
endforeach()

# What is missing must be said, not passed over.
function(must_refuse component sentence)
  file(WRITE ${place}/absent/CMakeLists.txt
       "cmake_minimum_required(VERSION 3.25)\nproject(absent LANGUAGES CXX)\n"
       "find_package(gx REQUIRED COMPONENTS ${component})\n")
  execute_process(COMMAND ${CMAKE_COMMAND} --fresh -S ${place}/absent -B ${place}/absent/build
                          -G Ninja -D CMAKE_CXX_COMPILER=${COMPILER}
                          -D CMAKE_PREFIX_PATH=${place}/prefix ${ARGN}
                  OUTPUT_QUIET ERROR_VARIABLE text RESULT_VARIABLE status)
  string(REGEX REPLACE "[ \n]+" " " text "${text}")
  if(status EQUAL 0 OR NOT text MATCHES "${sentence}")
    message(FATAL_ERROR "component '${component}' without ${ARGN}: ${text}")
  endif()
endfunction()
must_refuse(nonsense "no component .nonsense.: it has .*reference.*sim")
file(GLOB_RECURSE compiled ${place}/prefix/gx-compiled-*-targets.cmake)
if(compiled)
  must_refuse(nonsense "it has [^c]*compiled, [^.]*reference")
endif()
# must_find(OPTIONAL WRONG ARGUMENT ...): gx is found, with gx::reference; after it WRONG is false.
function(must_find optional wrong)
  file(WRITE ${place}/optional/CMakeLists.txt
       "cmake_minimum_required(VERSION 3.25)\nproject(optional LANGUAGES CXX)\n"
       "find_package(gx REQUIRED COMPONENTS reference OPTIONAL_COMPONENTS ${optional})\n"
       "if(${wrong} OR NOT TARGET gx::reference)\n"
       "  message(FATAL_ERROR \"optional components ${optional}: ${wrong}\")\nendif()\n")
  must(${CMAKE_COMMAND} --fresh -S ${place}/optional -B ${place}/optional/build -G Ninja
       -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_PREFIX_PATH=${place}/prefix ${ARGN})
endfunction()
# A component that stands on another one brings it.
if(EXISTS ${place}/prefix/lib/cmake/gx/gx-machine_files-targets.cmake)
  must_find("machine_files nonsense"
            "gx_nonsense_FOUND OR NOT TARGET gx::machine_files OR NOT TARGET gx::sim")
endif()
# What an optional component lacks costs this one alone.
# A row: a component, what it needs by the error, and the definition with which that is not found.
set(rows "nccl" "the header nccl.h" "GX_NCCL_INCLUDE_DIR="
         "onednn" "a package that find_package.dnnl CONFIG. does not find .Debian: libdnnl-dev."
         "CMAKE_DISABLE_FIND_PACKAGE_dnnl=ON"
         "image" "a package that find_package.PNG. does not find .Debian: libpng-dev."
         "CMAKE_DISABLE_FIND_PACKAGE_PNG=ON")
while(rows)
  list(POP_FRONT rows component needs missing)
  if(EXISTS ${place}/prefix/lib/cmake/gx/gx-${component}-targets.cmake)
    must_refuse(${component} "component '${component}' needs ${needs}" -D ${missing})
    must_find(${component} "gx_${component}_FOUND OR TARGET gx::${component}" -D ${missing})
  endif()
endwhile()
