// Communicator: one rank's NCCL communicator that does not block; CallGroup: a group of calls.
#pragma once

#include <string>   // names
#include <utility>  // exchange, swap

#include <nccl.h>  // ncclComm_t

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx::nccl {

/// One rank's communicator, made with blocking = 0: calls return at once, and state() is
/// ncclInProgress until they are done. One that was not destroy()ed is aborted at its end, which
/// ends its kernels.
/// Threads: one at a time.
class Communicator {
public:
    Communicator() = default;
    /// Begins to join the other ranks on the current GPU. Errors: gx::Error for wrong arguments; a
    /// failure shows in state().
    GX_DECL Communicator(const ncclUniqueId& id, int rank, int ranks);
    Communicator(Communicator&& c) noexcept { swap(c); }
    Communicator& operator=(Communicator&& c) noexcept {
        Communicator(std::move(c)).swap(*this);
        return *this;
    }
    ~Communicator() { abort(); }

    [[nodiscard]] ncclComm_t get() const { return comm_; }
    /// Polls: ncclSuccess, ncclInProgress, or the error that ended it.
    [[nodiscard]] GX_DECL ncclResult_t state();
    /// Begins `part`, the communicator of the ranks that give the same color, ordered by key, then
    /// by rank. Every rank calls it, where none of its work is outstanding. NCCL fills `part` while
    /// this communicator is in progress: it must stay in place until then.
    GX_DECL void split(int color, int key, Communicator& part);
    /// Begins the end: all work is flushed once state() is ncclSuccess; then destroy() it.
    GX_DECL void finalize();
    GX_DECL void destroy();
    /// Ends its kernels, whatever they wait for; the memory they were to fill holds anything.
    void abort() noexcept {
        if (comm_ != nullptr) (void)ncclCommAbort(std::exchange(comm_, nullptr));
        failed_ = ncclSuccess;
    }

private:
    void swap(Communicator& c) noexcept {
        std::swap(comm_, c.comm_);
        std::swap(failed_, c.failed_);
    }
    ncclComm_t comm_ = nullptr;
    ncclResult_t failed_ = ncclSuccess;  ///< what a call returned
};

/// The calls of this thread between its begin and end(), which start together.
class CallGroup {
public:
    CallGroup() { begun_ = ncclGroupStart(); }
    CallGroup(const CallGroup&) = delete;
    CallGroup& operator=(const CallGroup&) = delete;
    ~CallGroup() { (void)end(); }  // an open group would take all later calls of the thread

    /// Adds what a call in the group returned.
    void add(ncclResult_t result) {
        if (!failed() && result != ncclSuccess) result_ = result;
    }
    [[nodiscard]] bool failed() const {
        return result_ != ncclSuccess && result_ != ncclInProgress;
    }
    /// The first error, ncclInProgress, or ncclSuccess.
    ncclResult_t end() {
        if (std::exchange(open_, false)) {
            const ncclResult_t ended = begun_ == ncclSuccess ? ncclGroupEnd() : begun_;
            add(ended);
        }
        return result_;
    }

private:
    ncclResult_t begun_ = ncclSuccess, result_ = ncclSuccess;
    bool open_ = true;
};

}  // namespace gx::nccl

#if defined(GX_HEADER_ONLY)
#include <gx/nccl/impl/communicator.ipp>
#endif
