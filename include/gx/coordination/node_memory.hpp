// NodeMemory: memory that processes of one machine share, and how they work on it together.
#pragma once

#include <atomic>   // ranks that have come
#include <chrono>   // deadlines
#include <cstddef>  // byte
#include <cstdint>  // uint64_t
#include <memory>   // unique_ptr
#include <mutex>    // the allocator
#include <span>     // buffers
#include <string>   // sentences
#include <vector>   // ranks

#include <gx/coordination/session.hpp>  // Session
#include <gx/coordination/socket.hpp>   // Descriptor
#include <gx/core/decl.hpp>             // GX_DECL
#include <gx/core/error.hpp>            // Delivery
#include <gx/core/detail/gate.hpp>      // Gate
#include <gx/core/transport.hpp>        // SharedWork
#include <gx/memory/buffer.hpp>         // MemoryResource

namespace gx::coordination {

/// A part for each rank in memory that all of them have mapped, and share() on it (SharesMemory).
/// Buffers that it allocates are worked on where they lie; others are copied in and out.
///
/// Errors: share() ends as the waits of a Mesh do: with the session's cause, at the deadline, or
///         when a rank has left that does not come; the rank is named. Since a process may die in
///         the middle, a cause ends it also while ranks work; the memory stays mapped.
///         allocate() throws gx::Error where the rank's part is full.
/// Order:   share() works on the machine's ranks alone, in the order of their ranks in the session.
/// Threads: as SharesMemory: one thread of a rank at a time on a channel, of channels 0 to 15.
/// Cost:   address space as large as the machine's memory; pages when they are touched. Pages are
///         of 4 KiB unless the system gives shared memory larger ones, see pages().
class NodeMemory final : public MemoryResource {
public:
    /// For processes that this one forks: each then calls be(). nullptr: the system has none.
    [[nodiscard]] GX_DECL static std::unique_ptr<NodeMemory> for_children(int ranks);
    /// Of all ranks of a session, which call it equally often. Each gives the ranks of its machine
    /// in `members`, its own among them; none: all are of one. The first of a machine makes a
    /// memory without a name, and the others open it through /proc. nullptr on all ranks of the
    /// session: not each of them can.
    [[nodiscard]] GX_DECL static std::unique_ptr<NodeMemory> join(Session& session,
                                                                  std::chrono::nanoseconds limit,
                                                                  std::vector<int> members = {});
    GX_DECL ~NodeMemory() override;

    /// This process is rank `rank` of those that share it.
    void be(int rank) { rank_ = rank; }
    /// Ranks that share it.
    [[nodiscard]] int ranks() const { return ranks_; }

    [[nodiscard]] GX_DECL std::byte* allocate(std::size_t bytes, const Label& name) override;
    GX_DECL void release(std::byte* memory, std::size_t bytes) noexcept override;
    [[nodiscard]] const void* memory() const override { return &memory_id<HostMemory>; }

    /// `by_last`: the last rank to come works for all.
    GX_DECL Delivery share(Session& session, std::chrono::nanoseconds deadline, int channel,
                           std::span<std::byte> mine, SharedWork work, MessageBucket bucket,
                           bool by_last = false);
    /// The same on all ranks.
    [[nodiscard]] bool shares_cores() const { return !spins_; }

    /// "2 MiB where it can" or "4 KiB": the setting of the system for shared memory.
    [[nodiscard]] GX_DECL static std::string pages();

private:
    static constexpr std::size_t channels = 16, large_page = std::size_t{2} << 20;
    struct alignas(gx::detail::core_line) Seat {
        std::atomic<std::uint64_t> come{0};    ///< meetings that its rank has come to
        std::atomic<std::uint64_t> worked{0};  ///< and those in which it has no more work
    };
    struct Place {  // of a rank's bytes in its part
        std::uint64_t offset = 0, bytes = 0;
        MessageBucket bucket{};
        bool operator==(const Place&) const = default;
    };
    /// What a channel's ranks meet at; in the memory, all zero at first.
    struct Meeting {
        gx::detail::Gate *come, *worked;
        Seat* seats;    ///< [rank]
        Place* places;  ///< [rank]
    };

    NodeMemory(std::vector<int> members, std::byte* base, std::size_t part_bytes, bool spins);
    static std::size_t part_of(int ranks);
    static std::size_t head_of(int ranks);
    static std::size_t channel_of(int ranks);
    [[nodiscard]] Meeting meeting(int channel) const;
    [[nodiscard]] std::byte* part(int rank) const;
    [[nodiscard]] std::uint64_t staging(int channel, std::size_t bytes);
    /// Where the gate stays closed: why.
    Delivery wait(Session& session, std::chrono::nanoseconds deadline, const gx::detail::Gate& gate,
                  std::uint64_t last, const Meeting& m, std::atomic<std::uint64_t> Seat::* count,
                  std::uint64_t meetings);

    std::vector<int> members_;  ///< their ranks in the session
    std::byte* base_;
    std::size_t part_bytes_;
    int rank_ = 0;
    int ranks_;
    bool spins_;          ///< there is a core for each rank, as rank 0 sees it
    std::mutex mutex_{};  ///< of what follows
    std::size_t used_ = 0, dirty_ = 0, live_ = 0;  ///< from the begin of the part; buffers
    std::size_t staged_ = 0;                       ///< from its end
    std::vector<Place> stagings_{};                ///< [channel]
};

}  // namespace gx::coordination

#if defined(GX_HEADER_ONLY)
#include <gx/coordination/impl/node_memory.ipp>
#endif
