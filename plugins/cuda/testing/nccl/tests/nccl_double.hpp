// Ranks of one thread, with devices, streams and memory, for tests of NCCL's double.
#pragma once

#include <functional>
#include <memory>
#include <numeric>
#include <thread>

#include <gx/nccl_testing/nccl.hpp>

#include "../../runtime/tests/double.hpp"

namespace double_test {

using namespace gx::nccl_testing;

inline void ok(ncclResult_t result) {
    if (result != ncclSuccess) throw std::runtime_error(ncclGetErrorString(result));
}

/// Ranks of one communicator, driven by one thread: a deadlock is seen at once.
class Ranks {
public:
    explicit Ranks(int n) : comms_(static_cast<std::size_t>(n)) {
        ok(ncclCommInitAll(comms_.data(), n, nullptr));
        for (int r = 0; r < n; ++r) {
            ok(cudaSetDevice(r));
            streams_.push_back(new_stream());
        }
    }
    [[nodiscard]] int count() const { return static_cast<int>(comms_.size()); }
    ncclComm_t& comm(int r) { return comms_[static_cast<std::size_t>(r)]; }
    cudaStream_t stream(int r) { return streams_[static_cast<std::size_t>(r)]; }

    /// Memory on the device of rank r that holds `values`.
    template <class T>
    T* memory(int r, const std::vector<T>& values) {
        ok(cudaSetDevice(r));
        T* const p = device_memory<T>(values.size());
        held_.push_back(p);
        ok(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
        ok(cudaStreamSynchronize(nullptr));  // out of pageable memory the copy may go on
        return p;
    }
    /// A vector of ranks' memories, `value(rank)` in each.
    template <class F>
    auto each(F value) {
        using T = typename decltype(value(0))::value_type;
        std::vector<T*> all;
        for (int r = 0; r < count(); ++r) all.push_back(memory<T>(r, value(r)));
        return all;
    }
    template <class F>
    void group(F call) {
        ok(ncclGroupStart());
        for (int r = 0; r < count(); ++r) ok(call(r));
        ok(ncclGroupEnd());
    }
    void wait() {
        for (int r = 0; r < count(); ++r) ok(cudaStreamSynchronize(stream(r)));
    }
    template <class T>
    std::vector<T> read(const T* p, std::size_t n) {
        std::vector<T> v(n);
        ok(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
        return v;
    }
    void destroy() {
        for (int r = 0; r < count(); ++r) ok(ncclCommDestroy(comm(r)));
        release();
        expect_clean();
    }
    /// All but the communicators.
    void release() {
        for (void* const p : held_) ok(cudaFree(p));
        for (const cudaStream_t s : streams_) ok(cudaStreamDestroy(s));
        held_.clear();
        streams_.clear();
    }

private:
    std::vector<ncclComm_t> comms_;
    std::vector<cudaStream_t> streams_{};
    std::vector<void*> held_{};
};

inline void expect_has(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
}

}  // namespace double_test
