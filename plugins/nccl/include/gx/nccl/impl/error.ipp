// expect, expect_version.
#pragma once

#include <gx/core/error.hpp>  // Error
#include <gx/nccl/error.hpp>  // the declarations

namespace gx::nccl {

namespace detail {

/// 22809: "2.28.9".
inline std::string version_text(int code) {
    return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
           std::to_string(code % 100);
}

}  // namespace detail

GX_DECL void expect(ncclResult_t result, const std::string& call, ncclComm_t comm) {
    if (goes_on(result)) return;
    const std::string last = ncclGetLastError(comm);
    throw Error(call + ": " + ncclGetErrorString(result) + (last.empty() ? "" : ": " + last) +
                ". Run it with NCCL_DEBUG=INFO; nvidia-smi topo -m shows how GPUs reach each "
                "other.");
}

GX_DECL void expect_version() {
    int version = 0;
    expect(ncclGetVersion(&version), "ncclGetVersion");
    if (version / 10000 == NCCL_MAJOR && version >= NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, 0)) return;
    throw Error("NCCL " + detail::version_text(version) +
                " is loaded, and gx::nccl was compiled for " +
                detail::version_text(NCCL_VERSION_CODE) +
                ". Put a libnccl.so.2 of this version, or a newer minor one, first on "
                "LD_LIBRARY_PATH, or build gx with the headers of the one that is there.");
}

}  // namespace gx::nccl
