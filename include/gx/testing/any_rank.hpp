// AnyTransport, AnyStream, AnyRank, AnyWorld: any world behind virtual functions.
#pragma once

#include <cstddef>      // byte
#include <cstdint>      // uint64_t
#include <functional>   // function
#include <span>         // messages
#include <type_traits>  // remove_reference_t
#include <utility>      // declval
#include <vector>       // bytes

#include <gx/core/contract.hpp>      // GX_EXPECT
#include <gx/core/function_ref.hpp>  // FunctionRef
#include <gx/core/stream.hpp>        // Task, Event, note
#include <gx/core/transport.hpp>     // Request, Arrival, Placement
#include <gx/core/world.hpp>         // HasMemory, control_of

namespace gx::testing {

/// A Transport behind virtual functions, so that a reducer is compiled once for all worlds.
class AnyTransport {
public:
    AnyTransport() = default;
    AnyTransport(const AnyTransport&) = delete;
    AnyTransport& operator=(const AnyTransport&) = delete;
    virtual ~AnyTransport() = default;

    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual Placement placement() const = 0;
    virtual Request send(int to, int channel, std::span<const std::byte> message) = 0;
    virtual Request receive(int from, int channel, std::span<std::byte> message) = 0;
    virtual Arrival wait_any(std::span<const Request> requests) = 0;
    [[nodiscard]] virtual bool shares_memory() const { return false; }
    virtual Delivery share(int, std::span<std::byte>, SharedWork) {
        GX_EXPECT(false, "the ranks of this transport share no memory: use messages");
        return {};
    }

    [[nodiscard]] int ranks() const { return placement().ranks(); }
    Delivery wait(Request request) { return wait_any({&request, 1}).delivery; }
};
static_assert(SharesMemory<AnyTransport>);

/// A Stream behind virtual functions; passes accesses on to a stream that is Watchful.
class AnyStream {
public:
    AnyStream() = default;
    AnyStream(const AnyStream&) = delete;
    AnyStream& operator=(const AnyStream&) = delete;
    virtual ~AnyStream() = default;

    virtual Event enqueue(Task task) = 0;
    virtual void wait(Event event) = 0;
    virtual void cancel() = 0;
    virtual void note(Access access, std::span<const std::byte> memory,
                      const Operation& operation) = 0;
};
static_assert(Stream<AnyStream> && Watchful<AnyStream>);

/// One rank of any world.
struct AnyRank {
    AnyTransport& transport;
    AnyStream& stream;
    [[nodiscard]] int rank() const { return transport.rank(); }
};
using RankFunction = FunctionRef<void(AnyRank&)>;

using ByteVector = std::vector<std::byte>;

/// A world that runs functions on the ranks of any placement.
struct AnyWorld {
    std::function<void(Placement, RankFunction)> run{};
    /// Messages arrive in an order drawn from the seed; empty where the world can't vary it.
    std::function<void(Placement, std::uint64_t seed, RankFunction)> run_reordered{};
    /// What each rank of the placement gives, by rank, on every process: where a process runs one
    /// rank, or none, and sees no memory of the others. Empty where all ranks are in this process.
    std::function<std::vector<ByteVector>(Placement, ByteVector mine)> gather{};
};

namespace detail {

template <class T>
class TransportOf : public AnyTransport {
public:
    explicit TransportOf(T& link) : link_(link) {}
    [[nodiscard]] int rank() const override { return link_.rank(); }
    [[nodiscard]] Placement placement() const override { return link_.placement(); }
    Request send(int to, int channel, std::span<const std::byte> message) override {
        return link_.send(to, channel, message);
    }
    Request receive(int from, int channel, std::span<std::byte> message) override {
        return link_.receive(from, channel, message);
    }
    Arrival wait_any(std::span<const Request> requests) override {
        return link_.wait_any(requests);
    }
    [[nodiscard]] bool shares_memory() const override { return gx::shares_memory(link_); }
    Delivery share([[maybe_unused]] int channel, [[maybe_unused]] std::span<std::byte> mine,
                   [[maybe_unused]] SharedWork work) override {
        if constexpr (SharesMemory<T>) return link_.share(channel, mine, work);
        else return AnyTransport::share(channel, mine, work);
    }

private:
    T& link_;
};

template <class S>
class StreamOf final : public AnyStream {
public:
    explicit StreamOf(S& stream) : stream_(stream) {}
    Event enqueue(Task task) override { return stream_.enqueue(task); }
    void wait(Event event) override { stream_.wait(event); }
    void cancel() override {
        if constexpr (requires(S& s) { s.cancel(); }) stream_.cancel();
    }
    void note([[maybe_unused]] Access access, [[maybe_unused]] std::span<const std::byte> memory,
              [[maybe_unused]] const Operation& operation) override {
        if constexpr (Watchful<S>) stream_.note(access, memory, operation);
    }

private:
    S& stream_;
};

/// The control messages of a rank with memory of its own, which queued reducers are given.
template <class Rank>
class ControlOf final
    : public TransportOf<std::remove_reference_t<decltype(std::declval<Rank&>().control())>> {
public:
    explicit ControlOf(Rank& r) : ControlOf::TransportOf(r.control()), rank_(r) {}
    [[nodiscard]] Rank& device_rank() const { return rank_; }

private:
    Rank& rank_;
};

/// A stream that runs each task at once.
class InlineStream final : public AnyStream {
public:
    Event enqueue(Task task) override {
        task.run(task.context, task.argument);
        return {++done_};
    }
    void wait(Event) override {}
    void cancel() override {}
    void note(Access, std::span<const std::byte>, const Operation&) override {}

private:
    std::uint64_t done_ = 0;
};

template <class Rank>
void run_as_any(Rank& rank, RankFunction f) {
    if constexpr (HasMemory<Rank>) {
        ControlOf link(rank);
        InlineStream stream;
        AnyRank any{link, stream};
        f(any);
    } else {
        TransportOf link(rank.transport());
        StreamOf stream(rank.stream());
        AnyRank any{link, stream};
        f(any);
    }
}

}  // namespace detail

/// Erases `on`: a callable `on(placement, f)` that calls f(rank) for every rank of a world, and
/// where it can vary the order of arrival, `on.reordered(seed)`, another such callable; where its
/// ranks are in several processes, `on.gather(placement, mine)`.
template <class Worlds>
[[nodiscard]] AnyWorld any_world(const Worlds& on) {
    AnyWorld world;
    world.run = [on](Placement p, RankFunction f) {
        on(p, [&](auto& rank) { detail::run_as_any(rank, f); });
    };
    if constexpr (requires { on.reordered(std::uint64_t{}); })
        world.run_reordered = [on](Placement p, std::uint64_t seed, RankFunction f) {
            on.reordered(seed)(p, [&](auto& rank) { detail::run_as_any(rank, f); });
        };
    if constexpr (requires { on.gather(Placement{}, ByteVector{}); })
        world.gather = [on](Placement p, ByteVector mine) { return on.gather(p, std::move(mine)); };
    return world;
}

}  // namespace gx::testing
