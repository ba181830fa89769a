# cmake -D SOURCES=... -D BATCH=FILE -P: one source of several tests. What follows the includes of
# each lies in a namespace of its own, so that tests need not know of one another; lines keep their
# numbers.

# What a test that compiles alone has: a replacement of operator new, directives beside #include, or
# code in other namespaces.
set(GX_TEST_TEXTS_ALONE
    "counted_new\\.hpp|\n#(if|ifdef|define|pragma|undef)|\nnamespace [a-z]|\ntemplate <>")
if(NOT SOURCES)
  return()
endif()

list(LENGTH SOURCES count)
set(all "// Made of these tests by GxTestBatch.cmake.\n")
foreach(source IN LISTS SOURCES)
  file(READ ${source} text)
  if(count GREATER 1 AND text MATCHES "${GX_TEST_TEXTS_ALONE}")
    message(FATAL_ERROR "${source} must compile alone now, as it has '${CMAKE_MATCH_0}': configure "
                        "again, as ./gx test does.")
  endif()
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  string(FIND "${text}" "\n#include" last REVERSE)
  math(EXPR last "${last} + 1")
  string(SUBSTRING "${text}" ${last} -1 rest)
  string(FIND "${rest}" "\n" length)
  math(EXPR last "${last} + ${length} + 1")
  string(SUBSTRING "${text}" 0 ${last} head)
  string(SUBSTRING "${text}" ${last} -1 rest)
  string(APPEND all "#line 1 \"${source}\"\n${head}namespace in_${folder}_${name} {${rest}}\n")
endforeach()
file(WRITE ${BATCH} "${all}")
