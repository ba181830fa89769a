# What the plugin's tests link, and the check that is no test program.
get_property(names DIRECTORY PROPERTY GX_TEST_PROGRAMS)
foreach(name IN LISTS names)
  target_link_libraries(${name} PRIVATE gx_cuda_emulated gx_plugins)
endforeach()

# ThreadSanitizer finds what the emulation by itself does not: also in builds without it, where the
# compiler has its runtime, which Debian packages apart for clang; else the test is skipped.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_FLAGS -fsanitize=thread)
check_cxx_source_compiles("int main() {}" GX_HAS_THREAD_SANITIZER)
unset(CMAKE_REQUIRED_FLAGS)
if(NOT GX_SANITIZE AND GX_HAS_THREAD_SANITIZER)
  set_target_properties(plugins.cuda.races_test PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
  target_compile_options(plugins.cuda.races_test PRIVATE -fsanitize=thread -g1)
  target_link_options(plugins.cuda.races_test PRIVATE -fsanitize=thread)
endif()

if(NOT GX_SANITIZE)
  set(GX_CUDA12_ROOT "" CACHE PATH
      "A CUDA 12 toolkit, with which clang compiles for sm_70; empty: its parts are fetched")
  set(cuda_12 ${GX_CUDA12_ROOT})
  if(NOT cuda_12)
    set(cuda_12 ${PROJECT_BINARY_DIR}/cuda_12)
  endif()
  set(check ${CMAKE_COMMAND} -D PLUGIN=${CMAKE_CURRENT_SOURCE_DIR}
            -D INCLUDE=${PROJECT_SOURCE_DIR}/include -D CUDA_INCLUDE=${GX_CUDA_INCLUDE_DIR})
  set(script -P ${CMAKE_CURRENT_SOURCE_DIR}/tests/gpu_compile.cmake)
  add_test(NAME plugins.cuda.gpu_compile
           COMMAND ${check} -D PLACE=${PROJECT_BINARY_DIR}/gpu_compile ${script})
  add_test(NAME plugins.cuda.gpu_compile.sm_70
           COMMAND ${check} -D CUDA12=${cuda_12}
                   -D PLACE=${PROJECT_BINARY_DIR}/gpu_compile_sm_70 ${script})
  set_tests_properties(plugins.cuda.gpu_compile plugins.cuda.gpu_compile.sm_70
                       PROPERTIES TIMEOUT 600 COST 100
                       SKIP_REGULAR_EXPRESSION "skipped: no CUDA compiler")
  find_program(GX_PYTHON python3)
  if(GX_PYTHON AND NOT GX_CUDA12_ROOT)
    add_test(NAME plugins.cuda.cuda_12
             COMMAND ${GX_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/tests/cuda_12.py
                     ${GX_PEERS}/bin/python ${cuda_12})
    set_tests_properties(plugins.cuda.cuda_12 PROPERTIES FIXTURES_REQUIRED python_peers
                         FIXTURES_SETUP cuda_12 TIMEOUT 300 COST 150)
    set_tests_properties(plugins.cuda.gpu_compile.sm_70 PROPERTIES FIXTURES_REQUIRED cuda_12)
  endif()
endif()
