// Device properties of GPUs that need not be there, for CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION.
// Written by hand from data sheets: what is supported does not depend on clocks and memory.
#pragma once

namespace backend {

inline constexpr const char* v100_json =
    R"({"cudaDeviceId":0,"deviceVer":700,"driverVer":12080,"isTccDriver":0,"l2CacheSize":6291456,)"
    R"("maxCtasPerSM":32,"maxRegistersPerSM":65536,"maxSharedMemoryPerBlock":49152,)"
    R"("maxSharedMemoryPerBlockOptin":98304,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,)"
    R"("memClockRateKHz":877000,"multiProcessorCount":80,"pciDeviceId":0,"regsPerBlock":65536,)"
    R"("reservedSharedMemoryPerBlock":0,"smClockRateKHz":1530000,"supportCoopLaunch":1,)"
    R"("totalGlobalMem":16935682048,"warpSize":32,"maxBlockSize":[1024,1024,64],)"
    R"("maxGridSize":[2147483647,65535,65535],"deviceName":"Tesla V100-SXM2-16GB"})";
inline constexpr const char* h100_json =
    R"({"cudaDeviceId":0,"deviceVer":900,"driverVer":13000,"isTccDriver":0,"l2CacheSize":52428800,)"
    R"("maxCtasPerSM":32,"maxRegistersPerSM":65536,"maxSharedMemoryPerBlock":49152,)"
    R"("maxSharedMemoryPerBlockOptin":232448,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,)"
    R"("memClockRateKHz":2619000,"multiProcessorCount":132,"pciDeviceId":0,"regsPerBlock":65536,)"
    R"("reservedSharedMemoryPerBlock":1024,"smClockRateKHz":1980000,"supportCoopLaunch":1,)"
    R"("totalGlobalMem":85017493504,"warpSize":32,"maxBlockSize":[1024,1024,64],)"
    R"("maxGridSize":[2147483647,65535,65535],"deviceName":"NVIDIA H100 80GB HBM3"})";

}  // namespace backend
