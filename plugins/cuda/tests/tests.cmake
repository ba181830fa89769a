# What the plugin's tests link, and the check that is no test program.
get_property(names DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
list(FILTER names INCLUDE REGEX "^plugins\\.cuda\\..*_test$")
foreach(name IN LISTS names)
  target_link_libraries(${name} PRIVATE gx_cuda_emulated)
endforeach()

# ThreadSanitizer finds what the emulation by itself does not: also in builds without it.
if(NOT GX_SANITIZE)
  set_target_properties(plugins.cuda.races_test PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
  target_compile_options(plugins.cuda.races_test PRIVATE -fsanitize=thread -g1)
  target_link_options(plugins.cuda.races_test PRIVATE -fsanitize=thread)
endif()
