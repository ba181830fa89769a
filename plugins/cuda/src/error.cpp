#include <gx/cuda/error.hpp>

#include <string>  // sentences

#include <gx/core/error.hpp>  // Error, DeviceLost

namespace gx::cuda {

namespace {

/// Whether the device, or the process, returns this error from now on.
bool is_sticky(cudaError_t error) {
    switch (error) {
        case cudaErrorIllegalAddress:
        case cudaErrorIllegalInstruction:
        case cudaErrorMisalignedAddress:
        case cudaErrorInvalidAddressSpace:
        case cudaErrorInvalidPc:
        case cudaErrorHardwareStackError:
        case cudaErrorLaunchFailure:
        case cudaErrorLaunchTimeout:
        case cudaErrorAssert:
        case cudaErrorECCUncorrectable:
        case cudaErrorNvlinkUncorrectable:
        case cudaErrorDevicesUnavailable: return true;
#if CUDART_VERSION >= 12000
        case cudaErrorMpsClientTerminated:
        case cudaErrorExternalDevice: return true;
#endif
#if CUDART_VERSION >= 13000
        case cudaErrorContained:
        case cudaErrorTensorMemoryLeak: return true;
#endif
        default: return false;
    }
}

/// As in "12.4".
std::string version_name(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Which driver the runtime needs: the oldest of its major version (CUDA Compatibility, "Minor
/// Version Compatibility").
std::string needed_driver() {
    constexpr int major = CUDART_VERSION / 1000;
    constexpr int oldest = major >= 13 ? 580 : major == 12 ? 525 : 450;
    int here = 0;
    const bool is_loaded = cudaDriverGetVersion(&here) == cudaSuccess && here > 0;
    return "This program was built with CUDA " + version_name(CUDART_VERSION) +
           ", which needs an NVIDIA driver " + std::to_string(oldest) + " or newer; " +
           (is_loaded ? "the one that is loaded runs CUDA " + version_name(here) + " at most."
                      : "none is loaded.");
}

std::string remedy(cudaError_t error, const std::string& call) {
    switch (error) {
        case cudaErrorMemoryAllocation:
            if (call.starts_with("cudaMallocHost"))
                return "It is memory of the host, which is locked: take a smaller batch, fewer "
                       "ranks on this host, or a higher limit of it (ulimit -l, a container's).";
            return "Take a smaller batch or model, or end the programs that use this GPU "
                   "(nvidia-smi lists them).";
        case cudaErrorInsufficientDriver: return needed_driver();
        case cudaErrorStubLibrary:
            return "It is for linking alone: take the toolkit's folder 'stubs' out of "
                   "LD_LIBRARY_PATH, so that the driver's own libcuda.so.1 is loaded.";
        case cudaErrorSystemDriverMismatch:
            return "libcuda.so.1 is of another version than the driver in the kernel: restart the "
                   "machine after an update, and let a container use the driver of its host.";
        case cudaErrorCompatNotSupportedOnDevice:
            return "This GPU can't use the libcuda.so.1 of cuda-compat: take its folder 'compat' "
                   "out of LD_LIBRARY_PATH. " +
                   needed_driver();
        case cudaErrorSystemNotReady:
            return "Start the services of the driver, as nvidia-fabricmanager where GPUs are "
                   "joined by NVSwitch, and look at their logs.";
        case cudaErrorInitializationError:
            return "The driver has not started: see whether nvidia-smi lists the GPUs here. A "
                   "process that was forked from one that used CUDA can't use it.";
        case cudaErrorUnsupportedPtxVersion:
            return "The driver can't compile the PTX of CUDA " + version_name(CUDART_VERSION) +
                   ": install a newer driver, or build gx::cuda for this GPU: "
                   "-D CMAKE_CUDA_ARCHITECTURES=native.";
        case cudaErrorNoDevice:
            return "Run on a machine with an NVIDIA GPU, and let CUDA_VISIBLE_DEVICES name it.";
        case cudaErrorInvalidDevice:
            return "Name a GPU that nvidia-smi lists and CUDA_VISIBLE_DEVICES does not hide.";
        case cudaErrorNoKernelImageForDevice:
            return "Build gx::cuda for this GPU: -D CMAKE_CUDA_ARCHITECTURES=native; CUDA 13 has "
                   "dropped GPUs before sm_75, as V100: build those by clang 19 and CUDA 12.";
        default: break;
    }
    if (is_sticky(error))
        return "The GPU can't go on in this process: resume from the last checkpoint, and see "
               "nvidia-smi and the system's log.";
    return "Run it below compute-sanitizer to find the call that is wrong.";
}

}  // namespace

void expect(cudaError_t result, const std::string& call, int device) {
    if (result == cudaSuccess) return;
    const std::string text = (device >= 0 ? "GPU " + std::to_string(device) : "CUDA") + ": " +
                             call + ": " + cudaGetErrorName(result) + " (" +
                             cudaGetErrorString(result) + "). " + remedy(result, call);
    (void)cudaGetLastError();  // the exception reports it
    if (is_sticky(result)) throw DeviceLost(text);
    throw Error(text);
}

void expect(cudaError_t result, const std::string& call) {
    if (result == cudaSuccess) return;
    int device = -1;
    (void)cudaGetDevice(&device);
    expect(result, call, device);
}

void expect_usable(const std::string& text) {
    cudaStreamCaptureStatus status{};
    const cudaError_t earlier = cudaStreamIsCapturing(nullptr, &status);
    if (is_sticky(earlier)) expect(earlier, text);
    (void)cudaGetLastError();
}

int device_count() {
    int count = 0;
    expect(cudaGetDeviceCount(&count), "cudaGetDeviceCount", -1);
    return count;
}

}  // namespace gx::cuda
