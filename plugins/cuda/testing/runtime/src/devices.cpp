// CUDA Runtime API, "Device Management" and "Version Management".
#include <cstdio>   // snprintf
#include <cstring>  // memset

#include "state.hpp"

using namespace gx::cuda_testing;

namespace {

constexpr CallRules plain{};
constexpr CallRules always{.fails_with_device = false};

/// Attributes of the double's devices: those of an H100 that programs ask for. -1: none.
int attribute_of(const Runtime& r, cudaDeviceAttr attribute, int device) {
    switch (attribute) {
        case cudaDevAttrMaxThreadsPerBlock: return 1024;
        case cudaDevAttrMaxBlockDimX: return 1024;
        case cudaDevAttrMaxBlockDimY: return 1024;
        case cudaDevAttrMaxBlockDimZ: return 64;
        case cudaDevAttrMaxGridDimX: return 2147483647;
        case cudaDevAttrMaxGridDimY: return 65535;
        case cudaDevAttrMaxGridDimZ: return 65535;
        case cudaDevAttrMaxSharedMemoryPerBlock: return 49152;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: return 232448;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return 233472;
        case cudaDevAttrTotalConstantMemory: return 65536;
        case cudaDevAttrWarpSize: return 32;
        case cudaDevAttrMaxRegistersPerBlock: return 65536;
        case cudaDevAttrMultiProcessorCount: return 132;
        case cudaDevAttrMaxThreadsPerMultiProcessor: return 2048;
        case cudaDevAttrComputeCapabilityMajor: return r.options.sm / 10;
        case cudaDevAttrComputeCapabilityMinor: return r.options.sm % 10;
        case cudaDevAttrL2CacheSize: return 52428800;
        case cudaDevAttrAsyncEngineCount: return 3;
        case cudaDevAttrConcurrentKernels: return 1;
        case cudaDevAttrUnifiedAddressing: return 1;
        case cudaDevAttrCanMapHostMemory: return 1;
        case cudaDevAttrHostRegisterSupported: return 1;
        case cudaDevAttrStreamPrioritiesSupported: return 1;
        case cudaDevAttrCooperativeLaunch: return 1;
        case cudaDevAttrMemoryPoolsSupported: return 1;
        case cudaDevAttrEccEnabled: return 1;
        case cudaDevAttrManagedMemory: return 0;
        case cudaDevAttrIntegrated: return 0;
        case cudaDevAttrMaxPitch: return 2147483647;
        case cudaDevAttrClockRate: return 1'980'000;
        case cudaDevAttrMemoryClockRate: return 2'619'000;
        case cudaDevAttrGlobalMemoryBusWidth: return 5120;
        case cudaDevAttrTextureAlignment: return 512;
        case cudaDevAttrSurfaceAlignment: return 512;
        case cudaDevAttrTexturePitchAlignment: return 32;
        case cudaDevAttrMaxBlocksPerMultiprocessor: return 32;
        case cudaDevAttrMaxRegistersPerMultiprocessor: return 65536;
        case cudaDevAttrReservedSharedMemoryPerBlock: return 1024;
        case cudaDevAttrSingleToDoublePrecisionPerfRatio: return 2;
        case cudaDevAttrComputeMode: return cudaComputeModeDefault;
        case cudaDevAttrMultiGpuBoardGroupID: return device;
        case cudaDevAttrGpuOverlap:
        case cudaDevAttrGlobalL1CacheSupported:
        case cudaDevAttrLocalL1CacheSupported:
        case cudaDevAttrComputePreemptionSupported:
        case cudaDevAttrCanUseHostPointerForRegisteredMem:
        case cudaDevAttrClusterLaunch: return 1;
        case cudaDevAttrKernelExecTimeout:
        case cudaDevAttrTccDriver:
        case cudaDevAttrIsMultiGpuBoard:
        case cudaDevAttrHostNativeAtomicSupported:
        case cudaDevAttrPageableMemoryAccess:
        case cudaDevAttrConcurrentManagedAccess:
        case cudaDevAttrPageableMemoryAccessUsesHostPageTables:
        case cudaDevAttrDirectManagedMemAccessFromHost:
        case cudaDevAttrHostRegisterReadOnlySupported: return 0;
        case cudaDevAttrPciDomainId: return 0;
        case cudaDevAttrPciBusId: return the_runtime()->options.first_bus + device;
        case cudaDevAttrPciDeviceId: return 0;
        default: return -1;
    }
}

/// Ends what belongs to the device, without waiting for its work.
void reset_device(Runtime& r, int device) {
    r.drop_work(device);
    const std::string by = "cudaDeviceReset";
    for (CUstream_st& s : r.streams) {
        if (s.device != device) continue;
        if (s.capture) {
            s.capture->open = false;
            std::erase(r.captures, s.capture);
            s.capture.reset();
        }
        r.races.note(r.host, gx::Access::begin, {&s.probe, 1}, {"end of a stream"});
        if (!s.is_default && s.ended_by.empty()) s.ended_by = by;
    }
    const auto end = [&](auto& all) {
        for (auto& one : all)
            if (one.device == device && one.ended_by.empty()) one.ended_by = by;
    };
    end(r.events);
    end(r.graphs);
    end(r.executables);
    for (Runtime::Device& d : r.devices) d.peers.erase(device);
    r.devices[static_cast<std::size_t>(device)].peers.clear();
    for (Allocation* const a : r.memory.live()) {
        if (a->device != device) continue;
        r.races.note(r.host, gx::Access::end, {a->begin, a->bytes}, {"cudaDeviceReset"});
        if (a->kind == Allocation::Kind::registered) r.memory.forget_registered(*a);
        else r.memory.release(*a, by);
    }
}

}  // namespace

// "Device Management". Without a driver or a device *count stays as it was.
cudaError_t cudaGetDeviceCount(int* count) {
    return call("cudaGetDeviceCount", always, [&](Runtime& r) {
        if (count == nullptr) return cudaErrorInvalidValue;
        *count = static_cast<int>(r.devices.size());
        return cudaSuccess;
    });
}

// "Device Management": of the calling host thread; every thread begins with device 0.
cudaError_t cudaSetDevice(int device) {
    return call("cudaSetDevice", always, [&](Runtime& r) {
        if (!r.is_device(device)) return cudaErrorInvalidDevice;
        host_thread(r).device = device;
        return r.devices[static_cast<std::size_t>(device)].sticky;
    });
}
cudaError_t cudaGetDevice(int* device) {
    return call("cudaGetDevice", always, [&](Runtime& r) {
        if (device == nullptr) return cudaErrorInvalidValue;
        *device = host_thread(r).device;
        return cudaSuccess;
    });
}

// "Device Management". An attribute that the double does not know is a misuse of the double.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    return call("cudaDeviceGetAttribute", plain, [&](Runtime& r) {
        if (value == nullptr) return cudaErrorInvalidValue;
        if (!r.is_device(device)) return cudaErrorInvalidDevice;
        *value = attribute_of(r, attribute, device);
        if (*value < 0)
            r.stop("cudaDeviceGetAttribute: the double has no attribute " +
                   std::to_string(static_cast<int>(attribute)) + ". Add it to devices.cpp.");
        return cudaSuccess;
    });
}

// "Device Management": domain, bus, device and function.
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
    return call("cudaDeviceGetPCIBusId", plain, [&](Runtime& r) {
        if (text == nullptr || bytes < 13) return cudaErrorInvalidValue;
        if (!r.is_device(device)) return cudaErrorInvalidDevice;
        std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0",
                      static_cast<unsigned>(r.options.first_bus + device) & 0xff);
        return cudaSuccess;
    });
}

// "Device Management". Fields beyond those set here are 0.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
    return call("cudaGetDeviceProperties", plain, [&](Runtime& r) {
        if (p == nullptr) return cudaErrorInvalidValue;
        if (!r.is_device(device)) return cudaErrorInvalidDevice;
        std::memset(p, 0, sizeof *p);
        std::snprintf(p->name, sizeof p->name, "gx double of a GPU");
        const auto of = [&](cudaDeviceAttr a) { return attribute_of(r, a, device); };
        p->totalGlobalMem = r.options.device_bytes;
        p->sharedMemPerBlock = 49152;
        p->sharedMemPerBlockOptin = 232448;
        p->sharedMemPerMultiprocessor = 233472;
        p->regsPerBlock = of(cudaDevAttrMaxRegistersPerBlock);
        p->warpSize = of(cudaDevAttrWarpSize);
        p->maxThreadsPerBlock = of(cudaDevAttrMaxThreadsPerBlock);
        p->maxThreadsPerMultiProcessor = of(cudaDevAttrMaxThreadsPerMultiProcessor);
        for (int i = 0; i < 3; ++i) {
            p->maxThreadsDim[i] = of(static_cast<cudaDeviceAttr>(cudaDevAttrMaxBlockDimX + i));
            p->maxGridSize[i] = of(static_cast<cudaDeviceAttr>(cudaDevAttrMaxGridDimX + i));
        }
        p->multiProcessorCount = of(cudaDevAttrMultiProcessorCount);
        p->major = of(cudaDevAttrComputeCapabilityMajor);
        p->minor = of(cudaDevAttrComputeCapabilityMinor);
        p->l2CacheSize = of(cudaDevAttrL2CacheSize);
        p->asyncEngineCount = of(cudaDevAttrAsyncEngineCount);
        p->maxBlocksPerMultiProcessor = of(cudaDevAttrMaxBlocksPerMultiprocessor);
        p->regsPerMultiprocessor = of(cudaDevAttrMaxRegistersPerMultiprocessor);
        p->memoryBusWidth = of(cudaDevAttrGlobalMemoryBusWidth);
        p->concurrentKernels = 1;
        p->unifiedAddressing = 1;
        p->canMapHostMemory = 1;
        p->hostRegisterSupported = 1;
        p->memoryPoolsSupported = 1;
        p->cooperativeLaunch = 1;
        p->ECCEnabled = 1;
        p->pciBusID = of(cudaDevAttrPciBusId);
        return cudaSuccess;
    });
}

// "Device Management": the greatest priority is the least number.
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    return call("cudaDeviceGetStreamPriorityRange", plain, [&](Runtime&) {
        if (least != nullptr) *least = least_priority;
        if (greatest != nullptr) *greatest = greatest_priority;
        return cudaSuccess;
    });
}

// "Device Management": waits for all streams of the current device, and returns an error of the
// work before. In a capture it is refused.
cudaError_t cudaDeviceSynchronize() {
    return call("cudaDeviceSynchronize", {.unsafe_in_capture = true}, [](Runtime& r) {
        ++r.counts.host_synchronizations;
        std::vector<Point> points;
        for (CUstream_st& s : r.streams) {
            if (s.device != host_thread(r).device) continue;
            if (s.capture)
                r.stop("cudaDeviceSynchronize while " + s.name +
                       " is captured: cudaErrorStreamCaptureUnsupported.");
            points.push_back(Runtime::end_of(s));
        }
        return r.wait(points, "cudaDeviceSynchronize");
    });
}

// "Device Management": destroys all resources of the current device, pinned memory too. Clears a
// sticky error, but for a lost device.
cudaError_t cudaDeviceReset() {
    return call("cudaDeviceReset", {.frees = true}, [](Runtime& r) {
        const int device = host_thread(r).device;
        reset_device(r, device);
        auto& d = r.devices[static_cast<std::size_t>(device)];
        if (!d.lost) d.sticky = cudaSuccess;
        return d.sticky;
    });
}

// "Version Management": both work without a device.
cudaError_t cudaRuntimeGetVersion(int* version) {
    if (version == nullptr) return cudaErrorInvalidValue;
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
    if (version == nullptr) return cudaErrorInvalidValue;
    *version = the_runtime()->options.driver_version;
    return cudaSuccess;
}
