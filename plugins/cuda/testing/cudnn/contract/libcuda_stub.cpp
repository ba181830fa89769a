// A libcuda.so.1 without a GPU: enough for libcudnn to compile and finalize plans for a device that
// CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR describes. Loading a kernel succeeds and does nothing; cuInit
// returns CUDA_ERROR_STUB_LIBRARY, so that nothing takes it for a driver.
namespace {

constexpr int ok = 0, stub = 34;
char handle[64];

int attribute(int* value, int which) {
    *value = which == 0 ? 1024 : which == 4 ? 64 : 0;  // threads of a block; registers
    return ok;
}

}  // namespace

#define GX_LOADS(name) \
    int name(void** out) { return *out = handle, ok; }
#define GX_SUCCEEDS(name) \
    int name() { return ok; }
#define GX_FAILS(name) \
    int name() { return stub; }

extern "C" {
int cuInit(unsigned) { return stub; }
int cuDriverGetVersion(int* version) { return *version = 13000, ok; }
int cuGetErrorName(int, const char** name) { return *name = "stub", ok; }
int cuGetErrorString(int, const char** text) { return *text = "a stub of libcuda", ok; }
GX_LOADS(cuLibraryLoadData)
GX_LOADS(cuLibraryGetKernel)
GX_LOADS(cuLibraryGetModule)
GX_LOADS(cuKernelGetFunction)
GX_LOADS(cuModuleLoadData)
GX_LOADS(cuModuleLoadDataEx)
GX_LOADS(cuModuleGetFunction)
GX_SUCCEEDS(cuLibraryUnload)
GX_SUCCEEDS(cuModuleUnload)
GX_SUCCEEDS(cuKernelSetAttribute)
GX_SUCCEEDS(cuFuncSetAttribute)
int cuFuncGetAttribute(int* value, int which, void*) { return attribute(value, which); }
int cuKernelGetAttribute(int* value, int which, void*, int) { return attribute(value, which); }
// Looked up by name when libcudnn loads it.
GX_FAILS(cuCtxGetCurrent)
GX_FAILS(cuCtxGetLimit)
GX_FAILS(cuCtxPopCurrent)
GX_FAILS(cuCtxPushCurrent)
GX_FAILS(cuDeviceGet)
GX_FAILS(cuDeviceGetCount)
GX_FAILS(cuLaunchCooperativeKernel)
GX_FAILS(cuLaunchKernel)
GX_FAILS(cuLaunchKernelEx)
GX_FAILS(cuLibraryLoadFromFile)
GX_FAILS(cuLinkAddData)
GX_FAILS(cuLinkComplete)
GX_FAILS(cuLinkCreate)
GX_FAILS(cuLinkDestroy)
GX_FAILS(cuOccupancyMaxPotentialClusterSize)
GX_FAILS(cuStreamGetCtx)
}
