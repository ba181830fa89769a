# gx_tests(DIR LINKS ...): a ctest for each *_test.cpp below DIR, named after its path. The folder's
# property GX_TEST_PROGRAMS lists their programs.
find_package(GTest REQUIRED)
find_path(GX_RAPIDCHECK_INCLUDE rapidcheck.h REQUIRED)
find_library(GX_RAPIDCHECK_LIBRARY rapidcheck REQUIRED)

# What every test includes, compiled once, and the templates of the test libraries that most tests
# use, instantiated once. Headers are seen to stand alone elsewhere, without it.
add_library(gx_test_headers STATIC ${CMAKE_CURRENT_LIST_DIR}/test_headers.cpp)
target_link_libraries(gx_test_headers PUBLIC gx_warnings GTest::gtest_main GTest::gmock)
target_include_directories(gx_test_headers PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_include_directories(gx_test_headers SYSTEM PUBLIC ${GX_RAPIDCHECK_INCLUDE})
# Out of a precompiled header, clang reports what libstdc++'s stable_sort() uses as if it were ours.
target_compile_options(gx_test_headers PUBLIC
                       $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
target_precompile_headers(gx_test_headers PRIVATE
  <gmock/gmock.h> <gtest/gtest.h> <rapidcheck.h> <rapidcheck/gtest.h>
  <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <filesystem>
  <fstream> <functional> <map> <memory> <mutex> <numeric> <optional> <random> <ranges> <set> <span>
  <sstream> <string> <string_view> <thread> <tuple> <type_traits> <utility> <variant> <vector>
  <support/common_templates.hpp>)

# gx_test_program(NAME SOURCE LINKS ...): a program of the test libraries, which ctest does not run.
function(gx_test_program name source)
  cmake_parse_arguments(arg "" "" "LINKS" ${ARGN})
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ${arg_LINKS} gx_developer gx_test_headers
                        ${GX_RAPIDCHECK_LIBRARY})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_precompile_headers(${name} REUSE_FROM gx_test_headers)
endfunction()

# Tests of a role compile so many at a time, as one program in which each has a namespace of its
# own: headers are read, and common templates instantiated, once for all of them. 1 gives each its
# own program, which one that is being worked on builds sooner.
set(GX_TEST_BATCH 6 CACHE STRING "Tests of a role that compile as one program")

# Those with settings of their own in a CMakeLists.txt.
string(JOIN "" GX_TESTS_ALONE
  "^(layout|tools|sim\\.support|plugins\\.mpi)\\.|"
  "^(benchmarks\\.network\\.arguments|sim\\.fuzz|reference\\.cudnn_plans|"
  "testing\\.processes_conformance|"
  "trainer\\.monitor\\.tensor_board|plugins\\.(hierarchical\\.reducer|onednn\\.torchvision|"
  "onnx\\.export|cuda\\.(races|src\\..*)|nccl\\.launchers))_test$")

include(GxTestBatch)  # GX_TEST_TEXTS_ALONE

# Those that take longest are begun early, so that none is left alone at the end.
string(JOIN "" GX_TESTS_LONG
  "^(plugins\\.nccl\\.(survival|captured_steps|conformance)|testing\\.(mutants|conformance)|"
  "trainer\\.survival_(far|owners))_test$")

# gx_test_name(OUT SOURCE): plugins.nccl.world_test of plugins/nccl/tests/world_test.cpp.
function(gx_test_name out source)
  file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${source})
  string(REGEX REPLACE "\\.cpp$" "" name ${name})
  string(REGEX REPLACE "^tests/" "" name ${name})
  string(REGEX REPLACE "/tests/" "/" name ${name})
  string(REPLACE "/" "." name ${name})
  set(${out} ${name} PARENT_SCOPE)
endfunction()

# gx_test_batch(SOURCES LINKS): a program of these tests, a ctest for each.
function(gx_test_batch sources links)
  list(LENGTH sources count)
  if(count EQUAL 0)
    return()
  endif()
  foreach(source IN LISTS sources)
    gx_test_name(name ${source})
    list(APPEND names ${name})
  endforeach()
  list(GET names 0 first)
  if(count EQUAL 1)
    set(program ${first})
    gx_test_program(${first} ${sources} LINKS ${links})
    add_test(NAME ${first} COMMAND ${first})
  else()
    set(program ${first}_to_${count})
    set(batch ${CMAKE_CURRENT_BINARY_DIR}/batches/${program}.cpp)
    add_custom_command(
      OUTPUT ${batch} DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/cmake/GxTestBatch.cmake
      COMMAND ${CMAKE_COMMAND} -D "SOURCES=${sources}" -D BATCH=${batch}
              -P ${PROJECT_SOURCE_DIR}/cmake/GxTestBatch.cmake VERBATIM)
    gx_test_program(${program} ${batch} LINKS ${links})
    target_sources(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/batch_main.cpp)
    set(folders "")
    foreach(source IN LISTS sources)
      get_filename_component(folder ${source} DIRECTORY)
      list(APPEND folders ${folder})
    endforeach()
    list(REMOVE_DUPLICATES folders)
    target_include_directories(${program} PRIVATE ${folders})
    foreach(name source IN ZIP_LISTS names sources)
      add_test(NAME ${name} COMMAND ${program} --file=${source})
      add_custom_target(${name} DEPENDS ${program})
    endforeach()
  endif()
  set_tests_properties(${names} PROPERTIES TIMEOUT ${GX_TEST_TIMEOUT})
  list(FILTER names INCLUDE REGEX "${GX_TESTS_LONG}")
  if(names)
    set_tests_properties(${names} PROPERTIES COST 50)
  endif()
  set_property(DIRECTORY APPEND PROPERTY GX_TEST_PROGRAMS ${program})
endfunction()

function(gx_tests dir)
  cmake_parse_arguments(arg "" "" "LINKS" ${ARGN})
  set(root ${CMAKE_CURRENT_SOURCE_DIR}/${dir})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${root}/*_test.cpp)
  set(batch "")
  set(batch_role "")
  foreach(source IN LISTS sources)
    gx_lacks(lacking ${source})
    if(lacking)
      continue()
    endif()
    gx_test_name(name ${source})
    file(READ ${source} text)
    if(name MATCHES "${GX_TESTS_ALONE}" OR text MATCHES "${GX_TEST_TEXTS_ALONE}")
      gx_test_batch(${source} "${arg_LINKS}")
      continue()
    endif()
    file(RELATIVE_PATH role ${root} ${source})
    string(REGEX MATCH "^[^/]+/" role ${role})  # its first folder below the root, if any
    list(LENGTH batch count)
    if(NOT role STREQUAL batch_role OR count GREATER_EQUAL GX_TEST_BATCH)
      gx_test_batch("${batch}" "${arg_LINKS}")
      set(batch "")
    endif()
    list(APPEND batch ${source})
    set(batch_role "${role}")
  endforeach()
  gx_test_batch("${batch}" "${arg_LINKS}")
endfunction()
