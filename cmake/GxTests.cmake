# gx_tests(DIR LINKS ...): a program for each *_test.cpp below DIR, named after its path, for ctest.
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

function(gx_tests dir)
  cmake_parse_arguments(arg "" "" "LINKS" ${ARGN})
  set(root ${CMAKE_CURRENT_SOURCE_DIR}/${dir})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${root}/*_test.cpp)
  foreach(source IN LISTS sources)
    gx_lacks(lacking ${source})
    if(lacking)
      continue()
    endif()
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${source})
    string(REGEX REPLACE "\\.cpp$" "" name ${name})
    string(REGEX REPLACE "^tests/" "" name ${name})
    string(REGEX REPLACE "/tests/" "/" name ${name})
    string(REPLACE "/" "." name ${name})
    gx_test_program(${name} ${source} LINKS ${arg_LINKS})
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${GX_TEST_TIMEOUT})
  endforeach()
endfunction()
