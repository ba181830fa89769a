# gx_warnings: warnings, and sanitizers by preset, for our own code. gx_developer: these and the
# compiled libraries, for our own programs. Neither reaches a user of gx.
set(GX_SANITIZE "" CACHE STRING "Sanitizers for our own programs, as in address,undefined")
option(GX_WARNINGS_ARE_ERRORS "Stop at the first warning in our own programs" ON)
add_library(gx_warnings INTERFACE)
target_compile_options(gx_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                       -Wno-sign-conversion $<$<BOOL:${GX_WARNINGS_ARE_ERRORS}>:-Werror>)
# g++ collects its garbage when its heap has grown by a third, which takes a quarter of the time of
# a template-heavy source. It may hold this many KiB first; six tests of trainers then take 2.4 GB.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(gx_warnings INTERFACE --param=ggc-min-heapsize=1000000)
  # g++ 12 follows values through what -O3 has inlined, libstdc++'s strings too, and these warnings
  # are then untrue in places. The presets for tests, at -Og, stop at them.
  foreach(warning restrict maybe-uninitialized array-bounds)
    target_compile_options(gx_warnings INTERFACE $<$<CONFIG:Release>:-Wno-error=${warning}>)
  endforeach()
endif()
# libstdc++'s <cmath> instantiates C++17's special functions, Bessel's and elliptic ones, at the end
# of every source, which takes 0.2 s; gx uses none. Their header's include guard leaves them out.
target_compile_definitions(gx_warnings INTERFACE _GLIBCXX_BITS_SPECFUN_H)
# Seconds after which a test program hangs: on two cores the longest takes 105 s, and 300 s beside
# others that take them.
set(GX_TEST_TIMEOUT 600)
if(GX_SANITIZE)
  set(GX_TEST_TIMEOUT 900)
  target_compile_options(gx_warnings INTERFACE -fsanitize=${GX_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(gx_warnings INTERFACE -fsanitize=${GX_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # its manual: sanitizers make these warnings untrue
    target_compile_options(gx_warnings INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
add_library(gx_developer INTERFACE)
target_link_libraries(gx_developer INTERFACE gx_warnings $<TARGET_NAME_IF_EXISTS:gx::compiled>)
target_link_options(gx_developer INTERFACE -Wl,--as-needed)
# A program links in a third of bfd's time with lld, and in half with gold, which is in binutils.
find_program(GX_LINKER NAMES ld.lld ld.gold)
if(GX_LINKER AND NOT GX_SANITIZE)
  cmake_path(GET GX_LINKER EXTENSION linker)
  string(SUBSTRING ${linker} 1 -1 linker)
  target_link_options(gx_developer INTERFACE -fuse-ld=${linker})
endif()

# gx_compile_together(TARGET): four sources of a library at a time, which takes half of the time:
# most of it would go into the headers that they share.
function(gx_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 4)
endfunction()

# gx_precompile_programs(): sources of examples, benchmarks and programs of the simulator get the
# headers of the standard library and of fmt precompiled, about 1 s of each source. That they
# include what they use is seen where there are no tests, as in the preset `release`, and by clang.
function(gx_precompile_programs)
  if(NOT GX_BUILD_TESTS OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  set(folders sims/fuzz sims/tools)
  if(GX_BUILD_EXAMPLES)
    list(APPEND folders examples sims/scenarios)
  endif()
  if(GX_BUILD_BENCHMARKS)
    list(APPEND folders tests/benchmarks)
  endif()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/program_headers.cpp CONTENT "" @ONLY)
  add_library(gx_program_headers OBJECT ${PROJECT_BINARY_DIR}/program_headers.cpp)
  target_link_libraries(gx_program_headers PRIVATE gx::gx gx_developer)
  gx_std_header_names(headers)
  target_precompile_headers(gx_program_headers PRIVATE ${headers} <fmt/format.h>)
  foreach(folder IN LISTS folders)
    get_property(targets DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS targets)
      get_target_property(sources ${target} SOURCES)
      if(sources MATCHES "\\.cpp")
        target_precompile_headers(${target} REUSE_FROM gx_program_headers)
      endif()
    endforeach()
  endforeach()
endfunction()
