// Execution: a graph run on the double, with its tensors in device memory.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <gx/core/element.hpp>
#include <gx/cuda_testing/cudnn.hpp>
#include <gx/cuda_testing/runtime.hpp>

#include "../contract/backend.hpp"

namespace cudnn_test {

using namespace backend;

inline void ok(cudaError_t error) {
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorName(error));
}
inline void ok(cudnnStatus_t status) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    char sentence[512];
    cudnnGetLastErrorString(sentence, sizeof sentence);
    throw std::runtime_error(std::string(cudnnGetErrorString(status)) + ": " + sentence);
}

inline void start(gx::cuda_testing::CudnnGpu gpu = gx::cuda_testing::CudnnGpu::h100) {
    gx::cuda_testing::RuntimeOptions o;
    o.check_at_exit = false;
    gx::cuda_testing::reset(o);
    gx::cuda_testing::reset_cudnn({.gpu = gpu});
}

/// The sentence of the misuse that f ends in; "" if there is none.
inline std::string sentence_of(const std::function<void()>& f) {
    try {
        f();
    } catch (const gx::cuda_testing::Misuse& e) {
        return e.what();
    }
    return "";
}

using Values = std::vector<float>;  // dense, row-major in the dimensions

inline std::size_t count_of(const Dims& dims) {
    std::size_t n = 1;
    for (const std::int64_t d : dims) n *= static_cast<std::size_t>(d);
    return n;
}
/// Offset in memory of the i-th element, row-major in the dimensions.
inline std::size_t offset_of(const TensorSpec& s, std::size_t i) {
    const Dims strides = s.strides.empty() ? channels_last(s.dims) : s.strides;
    std::size_t offset = 0;
    for (std::size_t d = s.dims.size(); d-- > 0; i /= static_cast<std::size_t>(s.dims[d]))
        offset += i % static_cast<std::size_t>(s.dims[d]) * static_cast<std::size_t>(strides[d]);
    return offset;
}

/// Device memory for tensors and a workspace, a handle and a stream.
class Execution {
public:
    Execution() {
        ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        ok(cudnnCreate(&handle));
        ok(cudnnSetStream(handle, stream));
    }
    Execution(const Execution&) = delete;
    Execution& operator=(const Execution&) = delete;
    ~Execution() {
        cudaStreamSynchronize(stream);
        cudnnDestroy(handle);
        for (const auto& [uid, b] : buffers_) {
            cudaFree(b.device);
            cudaFreeHost(b.pinned);
        }
        for (void* const w : workspaces_) cudaFree(w);
        cudaStreamDestroy(stream);
    }

    /// Memory of a tensor, its elements dense as given; without values NaN.
    void put(const TensorSpec& s, const Values& v = {}) {
        Buffer& b = buffers_[s.uid];
        b.spec = s;
        b.bytes = (offset_of(s, count_of(s.dims) - 1) + 1) * bytes_of(s.type);
        ok(cudaMalloc(&b.device, b.bytes));
        ok(cudaMallocHost(&b.pinned, b.bytes));
        if (v.empty()) return;
        std::memset(b.pinned, 0xff, b.bytes);
        for (std::size_t i = 0; i < v.size(); ++i) store(b, offset_of(s, i), v[i]);
        ok(cudaMemcpyAsync(b.device, b.pinned, b.bytes, cudaMemcpyHostToDevice, stream));
        ok(cudaStreamSynchronize(stream));
    }
    [[nodiscard]] Values get(std::int64_t uid) {
        const Buffer& b = buffers_.at(uid);
        ok(cudaMemcpyAsync(b.pinned, b.device, b.bytes, cudaMemcpyDeviceToHost, stream));
        ok(cudaStreamSynchronize(stream));
        Values v(count_of(b.spec.dims));
        for (std::size_t i = 0; i < v.size(); ++i) v[i] = load(b, offset_of(b.spec, i));
        return v;
    }
    [[nodiscard]] void* device(std::int64_t uid) const { return buffers_.at(uid).device; }

    /// A plan by an engine with, or without, a note.
    [[nodiscard]] Descriptor plan_of(const Graph& g, int note = -1) {
        ok(g.status());
        Descriptor graph = g.operation_graph();
        graph.set(operation_graph_handle, CUDNN_TYPE_HANDLE, 1, &handle).finalize();
        ok(graph.status());
        cudnnStatus_t status{};
        for (const Descriptor& c : configurations(graph, CUDNN_HEUR_MODE_A, nullptr, status)) {
            bool has = false, random = false, reduced = false;
            for (const auto n : notes_of(c)) {
                has = has || n == note;
                random = random || n == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
                reduced = reduced || n == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
            }
            const bool tf32 = !random && !reduced && note == -1 && avoids_tensor_cores &&
                              !notes_of(c).empty() &&
                              notes_of(c)[0] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
            if (note >= 0 ? has : !random && !reduced && !tf32) return plan(c, nullptr);
        }
        throw std::runtime_error("no engine");
    }
    [[nodiscard]] Descriptor pack_of(const Dims& uids, const std::vector<void*>& pointers,
                                     void* workspace) {
        Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
        pack.integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids)
            .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                 static_cast<std::int64_t>(pointers.size()), pointers.data())
            .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace)
            .finalize();
        return pack;
    }
    /// Queues the graph on all memory that was put, and on `scalars` by value.
    void execute(const Descriptor& p, std::map<std::int64_t, float> scalars = {}) {
        ok(p.status());
        Dims uids;
        std::vector<void*> pointers;
        for (const auto& [uid, b] : buffers_) uids.push_back(uid), pointers.push_back(b.device);
        for (auto& [uid, value] : scalars) uids.push_back(uid), pointers.push_back(&value);
        const auto bytes = static_cast<std::size_t>(workspace_bytes(p));
        ok(cudaMalloc(&workspaces_.emplace_back(), bytes + 1));
        const Descriptor pack = pack_of(uids, pointers, workspaces_.back());
        ok(cudnnBackendExecute(handle, p.handle(), pack.handle()));
    }
    void run(const Graph& g, const std::map<std::int64_t, float>& scalars = {}) {
        const Descriptor p = plan_of(g);
        execute(p, scalars);
    }

    cudaStream_t stream{};
    cudnnHandle_t handle{};
    bool avoids_tensor_cores = false;  ///< TF32, in products of fp32

private:
    static constexpr auto operation_graph_handle = static_cast<Name>(800);  // deprecated
    struct Buffer {
        TensorSpec spec{};
        std::size_t bytes = 0;
        void *device = nullptr, *pinned = nullptr;
    };
    static std::size_t bytes_of(cudnnDataType_t t) { return t == fp32 ? 4 : t == int8 ? 1 : 2; }
    static void store(Buffer& b, std::size_t i, float v) {
        switch (b.spec.type) {
            case fp32: static_cast<float*>(b.pinned)[i] = v; break;
            case fp16: static_cast<std::uint16_t*>(b.pinned)[i] = gx::fp16::encode(v); break;
            case bf16: static_cast<std::uint16_t*>(b.pinned)[i] = gx::bf16::encode(v); break;
            default: static_cast<std::int8_t*>(b.pinned)[i] = static_cast<std::int8_t>(v);
        }
    }
    static float load(const Buffer& b, std::size_t i) {
        switch (b.spec.type) {
            case fp32: return static_cast<const float*>(b.pinned)[i];
            case fp16: return gx::fp16::decode(static_cast<const std::uint16_t*>(b.pinned)[i]);
            case bf16: return gx::bf16::decode(static_cast<const std::uint16_t*>(b.pinned)[i]);
            default: return static_cast<const std::int8_t*>(b.pinned)[i];
        }
    }
    std::map<std::int64_t, Buffer> buffers_{};
    std::vector<void*> workspaces_{};
};

/// Integers in [-3, 3]: sums and products of a few of them are exact in every type and order.
inline Values small_integers(const Dims& dims, unsigned seed) {
    std::mt19937 random(seed);
    Values v(count_of(dims));
    for (float& x : v) x = static_cast<float>(static_cast<int>(random() % 7u) - 3);
    return v;
}
inline Values reals(const Dims& dims, unsigned seed) {
    std::mt19937 random(seed);
    Values v(count_of(dims));
    for (float& x : v) x = static_cast<float>(random() % 20001u) / 10000.0f - 1.0f;
    return v;
}

}  // namespace cudnn_test
