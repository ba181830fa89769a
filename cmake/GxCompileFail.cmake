# gx_compile_fail(DIR PREFIX p): one test for each program of DIR and each compiler: it must not
# compile, and its first error must hold the text that it opens with. `control_*.cpp` must compile.
function(gx_compile_fail dir)
  cmake_parse_arguments(arg "" "PREFIX" "" ${ARGN})
  if(GX_SANITIZE)
    return()
  endif()
  gx_compile_fail_includes(includes)
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cpp)
  set(seen "")
  foreach(compiler IN ITEMS ${CMAKE_CXX_COMPILER} ${GX_OTHER_g++} ${GX_OTHER_clang++-19})
    set(kind gcc)
    if(compiler MATCHES "clang")
      set(kind clang)
    endif()
    if(kind IN_LIST seen OR NOT compiler)
      continue()
    endif()
    list(APPEND seen ${kind})
    foreach(source IN LISTS sources)
      cmake_path(GET source STEM name)
      set(name compile_fail.${arg_PREFIX}${name}.${kind})
      set(precompiled ${GX_PRECOMPILED_${kind}})
      file(STRINGS ${source} lacking REGEX "^// .*Fix: #include ")
      if(lacking)  # or the precompiled headers would provide what it lacks
        set(precompiled "")
      endif()
      add_test(NAME ${name}
               COMMAND ${CMAKE_COMMAND} -D COMPILER=${compiler} -D SOURCE=${source}
                       -D INCLUDES=${includes} -D PRECOMPILED=${precompiled}
                       -P ${PROJECT_SOURCE_DIR}/tests/compile_fail/check.cmake)
      set_tests_properties(${name} PROPERTIES TIMEOUT 120 LABELS compile_fail)
    endforeach()
  endforeach()
  if(NOT clang IN_LIST seen)
    message(STATUS "clang++-19 is missing: ${dir} runs on one compiler")
  endif()
endfunction()
foreach(other g++ clang++-19)
  find_program(GX_OTHER_${other} ${other})
endforeach()

# The folders of the headers of this build so far. Those of other libraries lie where the compilers
# look by themselves.
function(gx_compile_fail_includes out)
  get_property(targets GLOBAL PROPERTY GX_TARGETS)
  set(folders "")
  foreach(target IN LISTS targets)
    get_target_property(base ${target} HEADER_DIRS)
    list(APPEND folders ${base})
  endforeach()
  list(APPEND folders ${GX_CUDA_INCLUDE_DIR})
  list(REMOVE_DUPLICATES folders)
  string(JOIN ":" folders ${folders})
  set(${out} ${folders} PARENT_SCOPE)
endfunction()

# Headers that many of the programs include, of others and of gx, precompiled for each compiler:
# more than half of what a short program costs. That gx's headers include what they use is checked
# elsewhere, without them.
set(place ${PROJECT_BINARY_DIR}/compile_fail)
set(text "#include <fmt/format.h>\n")
foreach(header algorithm array atomic chrono cmath condition_variable cstdint filesystem fstream
        functional map memory mutex numeric optional random ranges set span sstream string
        string_view thread tuple type_traits utility variant vector)
  string(APPEND text "#include <${header}>\n")
endforeach()
foreach(header model/lenet reducer/ring threads/threads trainer/trainer)
  string(APPEND text "#include <gx/${header}.hpp>\n")
endforeach()
file(CONFIGURE OUTPUT ${place}/common.hpp CONTENT "${text}" @ONLY)
set(precompiled "")
foreach(compiler IN ITEMS ${CMAKE_CXX_COMPILER} ${GX_OTHER_g++} ${GX_OTHER_clang++-19})
  set(kind gcc)
  set(once "")
  set(made ${place}/common.hpp.gch)
  set(GX_PRECOMPILED_gcc -include:${place}/common.hpp)
  if(compiler MATCHES "clang")
    set(kind clang)
    set(once -fpch-instantiate-templates)  # and not in each of the programs, 0.35 s of each
    set(made ${place}/common.pch)
    set(GX_PRECOMPILED_clang -include-pch:${made})
  endif()
  if(GX_SANITIZE OR made IN_LIST precompiled OR NOT compiler)
    continue()
  endif()
  list(APPEND precompiled ${made})
  add_custom_command(OUTPUT ${made} DEPENDS ${place}/common.hpp DEPFILE ${made}.d VERBATIM
                     COMMAND ${compiler} -std=c++20 -DGX_COMPILED ${once}
                             -I${PROJECT_SOURCE_DIR}/include
                             -x c++-header -MD -MF ${made}.d
                             -MT ${made} ${place}/common.hpp -o ${made})
endforeach()
add_custom_target(gx_compile_fail_headers ALL DEPENDS ${precompiled})
