# gx_plugin(NAME LINKS ...): the plugin in this folder, all of it, from the files that are there:
#
#   include/gx/NAME/      headers of the library gx::NAME
#   tests/*_test.cpp      the programs plugins.NAME.*_test
#   tests/reducers.hpp    reducers to prove: plugins.NAME.conformance runs them on threads and on a
#                         simulated cluster, one ctest for each world
#   compile_fail/*.cpp    programs that must not compile
#
# gx_plugins links every plugin of this build, gx_reducer_plugins those that list reducers.
# OWN_ORDER: its reducers sum in the order of its library, so their bits are not those of threads;
# the lists of all others are together in tests/support/all_reducers.hpp.
# HOST_ONLY: its reducers take buckets in the host's memory alone, or their kernels have no CUDA
# kernels: they are not proved over NCCL.
add_library(gx_plugins INTERFACE)
add_library(gx_reducer_plugins INTERFACE)

function(gx_plugin name)
  cmake_parse_arguments(arg "OWN_ORDER;HOST_ONLY" "" "LINKS" ${ARGN})
  gx_header_library(${name} BASE include LINKS gx::gx ${arg_LINKS})
  target_link_libraries(gx_plugins INTERFACE gx_${name})
  set(reducers ${CMAKE_CURRENT_SOURCE_DIR}/tests/reducers.hpp)
  if(EXISTS ${reducers})
    target_link_libraries(gx_reducer_plugins INTERFACE gx_${name})
    if(NOT arg_OWN_ORDER)
      set_property(GLOBAL APPEND PROPERTY GX_REDUCER_LISTS ${name})
      if(NOT arg_HOST_ONLY)
        set_property(GLOBAL APPEND PROPERTY GX_DEVICE_REDUCER_LISTS ${name})
      endif()
    endif()
  endif()
  if(NOT GX_BUILD_TESTS)
    return()
  endif()
  gx_tests(tests LINKS gx::${name} gx::sim gx::reference)
  if(EXISTS ${reducers})
    set(program plugins.${name}.conformance)
    gx_test_program(${program} ${PROJECT_SOURCE_DIR}/tests/support/plugin_conformance.cpp
                    LINKS gx::${name} gx::sim)
    target_compile_definitions(${program} PRIVATE GX_PLUGIN_REDUCERS="${reducers}")
    foreach(world Threads Cluster)
      string(TOLOWER ${world} label)
      add_test(NAME ${program}.${label} COMMAND ${program} --gtest_filter=*On${world}*)
      set_tests_properties(${program}.${label} PROPERTIES TIMEOUT ${GX_TEST_TIMEOUT})
    endforeach()
  endif()
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/compile_fail)
    gx_compile_fail(${CMAKE_CURRENT_SOURCE_DIR}/compile_fail PREFIX ${name}.)
  endif()
endfunction()
