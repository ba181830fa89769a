# Install and export: `find_package(gx COMPONENTS sim onednn)` gives gx::gx, gx::sim, gx::onednn.
# Each component has an export file of its own, so a project needs only the libraries of what it
# asks for. The component `compiled` adds gx::compiled, over the libraries of these components.
include(CMakePackageConfigHelpers)
set(gx_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gx)
get_property(gx_targets GLOBAL PROPERTY GX_TARGETS)
foreach(target IN LISTS gx_targets)
  string(REGEX REPLACE "^gx_" "gx-" export ${target})
  install(TARGETS ${target} EXPORT ${export}-targets FILE_SET HEADERS)
  install(EXPORT ${export}-targets NAMESPACE gx:: DESTINATION ${gx_package_dir})
endforeach()
get_property(gx_compiled_names GLOBAL PROPERTY GX_COMPILED_LIBRARIES)
foreach(name IN LISTS gx_compiled_names)
  install(TARGETS gx_compiled_${name} EXPORT gx-compiled-${name}-targets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT gx-compiled-${name}-targets NAMESPACE gx:: DESTINATION ${gx_package_dir})
endforeach()
get_property(gx_components GLOBAL PROPERTY GX_COMPONENTS)
list(REMOVE_DUPLICATES gx_components)
foreach(name IN LISTS gx_components)
  get_property(targets GLOBAL PROPERTY GX_COMPONENT_${name})
  install(TARGETS ${targets} EXPORT gx-${name}-targets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} FILE_SET HEADERS)
  install(EXPORT gx-${name}-targets NAMESPACE gx:: DESTINATION ${gx_package_dir})
endforeach()
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/gxConfig.cmake.in ${PROJECT_BINARY_DIR}/gxConfig.cmake
  INSTALL_DESTINATION ${gx_package_dir} NO_SET_AND_CHECK_MACRO)
set(gx_any_architecture ARCH_INDEPENDENT)  # headers alone
if(gx_compiled_names OR "cuda_testing" IN_LIST gx_components OR "cuda_gpu" IN_LIST gx_components)
  set(gx_any_architecture)
endif()
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gxConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion ${gx_any_architecture})
install(FILES ${PROJECT_BINARY_DIR}/gxConfig.cmake ${PROJECT_BINARY_DIR}/gxConfigVersion.cmake
        DESTINATION ${gx_package_dir})
foreach(name mpi nccl)  # what programs with the component `compiled` compile for their own library
  if(TARGET gx_${name})
    install(FILES ${PROJECT_SOURCE_DIR}/plugins/${name}/src/${name}.cpp
            DESTINATION ${gx_package_dir})
  endif()
endforeach()
