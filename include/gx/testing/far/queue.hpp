// FarQueue: a queue of kernels, copies and messages of one rank of a FarMachine.
#pragma once

#include <algorithm>    // copy
#include <memory>       // shared_ptr
#include <span>         // the host's memory
#include <string>       // sentences
#include <string_view>  // names
#include <type_traits>  // is_arithmetic_v, is_const_v
#include <utility>      // move
#include <vector>       // copies of what the host gave

#include <gx/core/error.hpp>           // Error
#include <gx/memory/buffer.hpp>        // MemoryResource
#include <gx/memory/queue.hpp>         // DeviceKernel, QueuedMessage
#include <gx/testing/far/machine.hpp>  // FarMachine
#include <gx/testing/far/memory.hpp>   // FarMemory

namespace gx::testing {

/// One rank's queue; as a CUDA stream, with the same rules.
class FarQueue {
public:
    using Memory = FarMemory;

    FarQueue(FarMachine& machine, int rank, const Label& name)
        : machine_(&machine), rank_(rank), queue_(machine.add_queue(rank, name)) {}

    void enqueue(FarWork work) { machine_->enqueue(queue_, std::move(work)); }
    /// The point behind all that was enqueued.
    [[nodiscard]] Event record() const { return machine_->record(queue_); }
    /// What is enqueued from here on runs after `event`, of a queue of the same rank.
    void wait_for(Event event) { machine_->enqueue_wait(queue_, event); }
    /// The host waits for `event`.
    [[nodiscard]] Delivery wait(Event event) { return machine_->wait(rank_, event); }
    [[nodiscard]] bool reached(Event event) const { return machine_->reached(rank_, event); }
    void abandon() { machine_->abandon(queue_); }

    /// Copies what the host holds now. Errors: gx::Error for views of two lengths, as copy_out().
    template <class T>
    void copy_in(std::span<const T> from, ViewIn<T, FarMemory> to, const Operation& what) {
        expect_lengths(from.size_bytes(), to.size_bytes(), what);
        host_reads(from, what);
        FarWork work{.operation = what, .uses = {{FarMemory::seen(to), true}}};
        auto held = std::make_shared<std::vector<T>>(from.begin(), from.end());
        work.run = [held, to] {
            std::copy(held->begin(), held->end(), FarMemory::open(to).begin());
        };
        enqueue(std::move(work));
    }
    /// Copies to the host's memory, which stays until the event behind it was waited for.
    template <class T>
    void copy_out(ViewIn<const T, FarMemory> from, std::span<T> to, const Operation& what) {
        expect_lengths(from.size_bytes(), to.size_bytes(), what);
        FarWork work{.operation = what,
                     .uses = {{FarMemory::seen(from)}, {std::as_bytes(to), true, true}}};
        work.run = [from, to] {
            std::copy_n(FarMemory::open(from).begin(), to.size(), to.begin());
        };
        enqueue(std::move(work));
    }
    /// The host reads the target of a copy.
    template <class T>
    void host_reads(std::span<const T> memory, const Operation& what) const {
        machine_->host_uses(rank_, std::as_bytes(memory), false, what);
    }

    [[nodiscard]] FarMachine& machine() const { return *machine_; }
    [[nodiscard]] int rank() const { return rank_; }

private:
    void expect_lengths(std::size_t from, std::size_t to, const Operation& what) const {
        if (from == to) return;
        machine_->stop_at(
            rank_, Error("rank " + std::to_string(rank_) + " copies " + std::to_string(from) +
                         " bytes to memory of " + std::to_string(to) + " ('" + to_string(what) +
                         "'). Copy between views of one length."));
    }

    FarMachine* machine_;
    int rank_;
    int queue_;
};

namespace detail::far {
template <class T>
void add_use(FarQueue&, FarWork& work, DeviceView<T, FarMemory> v) {
    work.uses.push_back({FarMemory::seen(v), !std::is_const_v<T>});
}
template <class T>
void add_use(FarQueue& queue, FarWork& work, DeviceScalar<T, FarMemory> s) {
    if (s.at.empty())
        queue.machine().stop_at(
            queue.rank(),
            Error("rank " + std::to_string(queue.rank()) + ": '" + to_string(work.operation) +
                  "' is given a scalar without memory, such as the loss scale of a "
                  "bucket that was made without one. Give it a value on the "
                  "device."));
    add_use(queue, work, s.at);
}
template <class T>
void add_use(FarQueue&, FarWork&, const T&) {
    static_assert(std::is_arithmetic_v<T> || std::is_trivially_copyable_v<T>);
}
}  // namespace detail::far

/// A kernel on far memory: a view of const is read, any other is read and written.
template <DeviceKernel K, class... Arguments>
void launch(FarQueue& queue, const K& kernel, Arguments... arguments) {
    static_assert((... && explain_argument<Arguments, FarMemory>()));
    FarWork work{.operation = {Label(std::string_view(K::name))}};
    (detail::far::add_use(queue, work, arguments), ...);
    work.run = [kernel, arguments...] { kernel(FarMemory::open(arguments)...); };
    queue.enqueue(std::move(work));
}

/// One rank's far memory as a MemoryResource.
class FarResource : public MemoryResource {
public:
    FarResource(FarMachine& machine, int rank) : machine_(&machine), rank_(rank) {}
    [[nodiscard]] std::byte* allocate(std::size_t bytes, const Label& name) override {
        std::byte* const memory = machine_->arena(rank_).allocate(bytes, name);
        machine_->register_memory(rank_, {memory, bytes}, name);
        return memory;
    }
    void release(std::byte* memory, std::size_t bytes) noexcept override {
        machine_->forget_memory(rank_, {memory, bytes}, {"release"});
        machine_->arena(rank_).release(memory);
    }
    [[nodiscard]] const void* memory() const override { return &memory_id<FarMemory>; }

private:
    FarMachine* machine_;
    int rank_;
};

}  // namespace gx::testing
