# Ends with a sentence where nvcc does not compile for one of CMAKE_CUDA_ARCHITECTURES: CMake's test
# of the compiler would end with its log.
cmake_minimum_required(VERSION 3.25)
if(CMAKE_CUDA_COMPILER)
  set(nvcc ${CMAKE_CUDA_COMPILER})
elseif(NOT "$ENV{CUDACXX}" STREQUAL "")
  separate_arguments(nvcc UNIX_COMMAND "$ENV{CUDACXX}")  # with its flags
else()
  find_program(nvcc nvcc NO_CACHE)
endif()
set(known "")
if(nvcc)
  execute_process(COMMAND ${nvcc} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
endif()
string(REGEX MATCHALL "[0-9]+" known "${known}")
list(JOIN nvcc " " program)
foreach(architecture IN LISTS CMAKE_CUDA_ARCHITECTURES)
  string(REGEX MATCH "^[0-9]+" number "${architecture}")
  if(known AND number AND NOT number IN_LIST known)
    list(JOIN known ", " all)
    message(FATAL_ERROR "GX_CUDA_GPU: ${program} does not compile for sm_${number}, but for \
${all}. Give other CMAKE_CUDA_ARCHITECTURES, or for a GPU that it dropped clang++-19 as \
CMAKE_CUDA_COMPILER, with CUDAToolkit_ROOT=a CUDA 12 toolkit.")
  endif()
endforeach()
