# cmake -D BUILD=... [-D ONEDNN=ON] -P: makes the package in a Conan home below the build folder,
# with Debian's libraries and no remote, and runs its test_package. ONEDNN: this machine has it, so
# the package has gx::onednn, and its consumer is the headline program. Prints `skipped: WHY` where
# there is no Conan.
cmake_minimum_required(VERSION 3.25)
set(place ${BUILD}/conan)
set(root ${CMAKE_CURRENT_LIST_DIR}/..)
set(ENV{CONAN_HOME} ${place}/home)
set(ENV{CONAN_NON_INTERACTIVE} 1)

function(must out)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE text ERROR_VARIABLE text RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nended with ${status}:\n${text}")
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# ---- Conan: of an earlier run, of this machine, or of PyPI in a virtual environment -----
find_program(CONAN conan HINTS ${place}/venv/bin)
if(CONAN)
  execute_process(COMMAND ${CONAN} --version OUTPUT_VARIABLE version ERROR_QUIET)
  if(NOT version MATCHES "Conan version 2")
    unset(CONAN CACHE)
    unset(CONAN)
  endif()
endif()
if(NOT CONAN)
  find_program(PYTHON python3)
  if(NOT PYTHON)
    message("skipped: there is no Conan 2 and no python3 to install it with")
    return()
  endif()
  execute_process(COMMAND ${PYTHON} -m venv ${place}/venv RESULT_VARIABLE status OUTPUT_QUIET
                  ERROR_QUIET)
  if(NOT status EQUAL 0)
    message("skipped: there is no Conan 2, and python3 has no venv: install python3-venv")
    return()
  endif()
  execute_process(COMMAND ${place}/venv/bin/pip install --quiet --retries 1 --timeout 20
                          "conan>=2,<3" TIMEOUT 120
                  RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE why)
  if(NOT status EQUAL 0)
    message("skipped: there is no Conan 2, and PyPI could not be reached: ${why}")
    return()
  endif()
  set(CONAN ${place}/venv/bin/conan)
endif()

# ---- A profile over the libraries of the system, in the versions that the recipe asks for 
file(READ ${CMAKE_CURRENT_LIST_DIR}/conanfile.py recipe)
string(REGEX MATCHALL "self\\.requires\\(\"[^\"]+\"\\)" requirements "${recipe}")
if(NOT requirements)
  message(FATAL_ERROR "conanfile.py requires nothing, as this script reads it")
endif()
set(profile "include(default)\n[conf]\ntools.cmake.cmaketoolchain:generator=Ninja\n")
string(APPEND profile "tools.cmake.cmaketoolchain:user_presets=\n"  # nothing into the checkout
              "tools.cmake.cmake_layout:test_folder=${place}/test_package\n")
string(APPEND profile "[platform_requires]\n")
foreach(requirement IN LISTS requirements)
  string(REGEX REPLACE "self\\.requires\\(\"([^/]+)/[^0-9]*([0-9.]+).*" "\\1/\\2" found
         "${requirement}")
  string(APPEND profile "${found}\n")
endforeach()
must(text ${CONAN} profile detect --force)
file(WRITE ${place}/gx.profile "${profile}")
set(create ${CONAN} create ${CMAKE_CURRENT_LIST_DIR} -nr -pr:a ${place}/gx.profile
    -s compiler.cppstd=20 -s build_type=Debug)

# ---- The package, its version and what its consumer prints ------------------------------
file(STRINGS ${root}/CMakeLists.txt version REGEX "^project\\(gx VERSION")
string(REGEX REPLACE ".*VERSION ([0-9.]+).*" "\\1" version "${version}")
if(ONEDNN)
  # Unoptimised, the real ResNet-50 would run for a minute. What debuggers read takes half as long.
  set(onednn -o "gx/*:with_onednn=True" -c "tools.build:cxxflags=['-O1','-g0']")
  file(STRINGS ${root}/examples/01_headline.cpp parts REGEX "^// (Prints:|        ) ")
  list(TRANSFORM parts REPLACE "^// (Prints:|       ) +" "")
else()
  set(onednn "")
  set(parts "Trainer<LeNet, MultiRing<4, fp16>, Warmup<Poly<2>>>" "4 GPUs ")
endif()
must(text ${create} --build=missing ${onednn})
foreach(part IN ITEMS "gx/${version}" ${parts})
  string(FIND "${text}" "${part}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "conan create does not print '${part}':\n${text}")
  endif()
endforeach()

# ---- A component that is left out is not in the package ---------------------------------
# packaged(OUT OPTION...): the exported targets of a package that is made with these options.
function(packaged out)
  must(text ${create} --build=gx/* --test-folder= ${ARGN})
  string(REGEX MATCHALL "Package folder ([^\n]+)" folder "${text}")
  list(GET folder -1 folder)
  string(REGEX REPLACE "Package folder " "" folder "${folder}")
  file(GLOB targets RELATIVE ${folder}/lib/cmake/gx ${folder}/lib/cmake/gx/*-targets.cmake)
  list(REMOVE_ITEM targets gx-ranges-targets.cmake)  # there where the system has range-v3
  set(${out} ${targets} PARENT_SCOPE)
endfunction()
file(GLOB components RELATIVE ${root}/plugins ${root}/plugins/*/CMakeLists.txt)
list(TRANSFORM components REPLACE "/CMakeLists.txt" "")
list(APPEND components sim reference image)
set(none "")
foreach(component IN LISTS components)
  list(APPEND none -o "gx/*:with_${component}=False")  # Conan refuses an option that is not there
endforeach()
packaged(targets ${none} -o "gx/*:with_trees=True")
if(NOT targets STREQUAL "gx-targets.cmake;gx-trees-targets.cmake")
  message(FATAL_ERROR "a package of gx::trees alone holds: ${targets}")
endif()
