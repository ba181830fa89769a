// The source that the precompiled headers of the tests are built for: the instantiations that they
// declare.
#define GX_DEFINED_TEMPLATE(...) template __VA_ARGS__;
GX_COMMON_TEMPLATES(GX_DEFINED_TEMPLATE)
