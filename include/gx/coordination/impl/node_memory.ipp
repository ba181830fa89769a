// NodeMemory: mapping, the allocator of a part, and meetings.
#pragma once

#include <fcntl.h>         // open
#include <sys/mman.h>      // mmap, memfd_create
#include <sys/resource.h>  // getrlimit
#include <sys/stat.h>      // fstat
#include <unistd.h>        // ftruncate, sysconf

#include <algorithm>  // find, max, min
#include <array>      // few ranks
#include <cstring>    // memcpy
#include <fstream>    // the system's settings
#include <new>        // the head
#include <numeric>    // iota
#include <ranges>     // views of ranks
#include <sstream>    // where the memory is
#include <thread>     // sleep_for
#include <utility>    // move

#include <gx/coordination/node_memory.hpp>      // the declarations
#include <gx/core/contract.hpp>                 // GX_EXPECT
#include <gx/core/detail/message_mismatch.hpp>  // unequal_meeting
#include <gx/core/detail/patience.hpp>          // Patience

namespace gx::coordination {

// ---- Mapping ------------------------------------------------------------------------------------

GX_DECL std::size_t NodeMemory::part_of(int ranks) {
    const auto memory = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return (memory / static_cast<std::size_t>(ranks) / large_page + 1) * large_page;
}
GX_DECL std::size_t NodeMemory::channel_of(int ranks) {
    const auto n = static_cast<std::size_t>(ranks);
    constexpr std::size_t line = gx::detail::core_line;
    return 2 * sizeof(gx::detail::Gate) + n * sizeof(Seat) +
           (n * sizeof(Place) + line - 1) / line * line;
}
GX_DECL std::size_t NodeMemory::head_of(int ranks) {
    return (channels * channel_of(ranks) + large_page - 1) / large_page * large_page;
}

GX_DECL NodeMemory::NodeMemory(std::vector<int> members, std::byte* base, std::size_t part_bytes,
                               bool spins)
    : members_(std::move(members)),
      base_(base),
      part_bytes_(part_bytes),
      ranks_(static_cast<int>(members_.size())),
      spins_(spins),
      stagings_(channels) {}

/// Ranks 0 to n - 1.
inline std::vector<int> first_ranks(int n) {
    std::vector<int> ranks(static_cast<std::size_t>(n));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
}

/// Whether there is a core for each rank. Processes may be told different numbers of cores.
inline bool has_core_for_each(int ranks) {
    return static_cast<unsigned>(ranks) <= std::thread::hardware_concurrency();
}

/// Whether files may have so many bytes (ulimit -f): one that grows beyond ends the process.
inline bool may_grow_to(std::size_t bytes) {
    rlimit most{};
    return ::getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur == RLIM_INFINITY ||
           bytes <= most.rlim_cur;
}

/// All of it, from a multiple of `alignment` on, or nullptr. `file`: -1: of this process and its
/// children.
inline std::byte* map_shared(std::size_t bytes, std::size_t alignment, int file) {
    void* const raw = ::mmap(nullptr, bytes + alignment, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) return nullptr;
    const auto begin = reinterpret_cast<std::uintptr_t>(raw);
    const auto aligned = (begin + alignment - 1) / alignment * alignment;
    if (aligned != begin) (void)::munmap(raw, aligned - begin);
    if (const auto rest = begin + alignment - aligned; rest != 0)
        (void)::munmap(reinterpret_cast<void*>(aligned + bytes), rest);
    void* const at = reinterpret_cast<void*>(aligned);
    const int kind = MAP_SHARED | MAP_FIXED | MAP_NORESERVE | (file < 0 ? MAP_ANONYMOUS : 0);
    if (::mmap(at, bytes, PROT_READ | PROT_WRITE, kind, file, 0) == MAP_FAILED) {
        (void)::munmap(at, bytes);
        return nullptr;
    }
    (void)::madvise(at, bytes, MADV_HUGEPAGE);  // a wish
    (void)::madvise(at, bytes, MADV_DONTDUMP);
    return static_cast<std::byte*>(at);
}

GX_DECL std::unique_ptr<NodeMemory> NodeMemory::for_children(int ranks) {
    const std::size_t part = part_of(ranks);
    std::byte* const base =
        map_shared(head_of(ranks) + part * static_cast<std::size_t>(ranks), large_page, -1);
    if (base == nullptr) return nullptr;
    return std::unique_ptr<NodeMemory>(
        new NodeMemory(first_ranks(ranks), base, part, has_core_for_each(ranks)));
}

/// "DEVICE INODE" of an open file: processes of two containers may have one number, and what lies
/// below /proc/NUMBER is then another's.
inline std::string identity_of(int file) {
    struct stat s{};
    if (::fstat(file, &s) != 0) return "unknown";
    return std::to_string(s.st_dev) + " " + std::to_string(s.st_ino);
}

GX_DECL std::unique_ptr<NodeMemory> NodeMemory::join(Session& session,
                                                     std::chrono::nanoseconds limit,
                                                     std::vector<int> members) {
    if (members.empty()) members = first_ranks(session.ranks());
    const int ranks = static_cast<int>(members.size());
    const auto own = std::ranges::find(members, session.rank());
    GX_EXPECT(own != members.end(), "a rank that is one of its machine's");
    const auto place = static_cast<int>(own - members.begin());
    Descriptor file;
    std::string path = "none";
    std::size_t part = part_of(ranks), all = 0;
    bool spins = false;
    const auto all_of = [&] { return head_of(ranks) + part * static_cast<std::size_t>(ranks); };
    if (place == 0) {
        all = all_of();
        if (may_grow_to(all)) file = Descriptor(::memfd_create("gx", MFD_CLOEXEC));
        if (file && ::ftruncate(file.get(), static_cast<off_t>(all)) == 0)
            path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file.get()) +
                   " " + std::to_string(part) + (has_core_for_each(ranks) ? " 1 " : " 0 ") +
                   identity_of(file.get());
    }
    std::istringstream said(session.gather(path, limit)[std::size_t(members.front())]);
    std::byte* base = nullptr;
    if (std::string identity;
        said >> path >> part >> spins && std::getline(said >> std::ws, identity)) {
        all = all_of();
        if (place != 0) file = Descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
        if (file && identity_of(file.get()) == identity)
            base = map_shared(all, large_page, file.get());
    }
    std::unique_ptr<NodeMemory> mine;
    if (base != nullptr) {
        mine.reset(new NodeMemory(std::move(members), base, part, spins));
        mine->be(place);
    }
    for (const std::string& one : session.gather(mine ? "mapped" : "none", limit))
        if (one != "mapped") return nullptr;
    return mine;
}

GX_DECL NodeMemory::~NodeMemory() {
    (void)::munmap(base_, head_of(ranks_) + part_bytes_ * static_cast<std::size_t>(ranks_));
}

GX_DECL std::string NodeMemory::pages() {
    std::string setting;
    std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/shmem_enabled"), setting);
    const bool large = setting.find("[a") != setting.npos || setting.find("[w") != setting.npos ||
                       setting.find("[force") != setting.npos;
    return large ? "2 MiB where it can" : "4 KiB";
}

// ---- Buffers ------------------------------------------------------------------------------------

GX_DECL std::byte* NodeMemory::part(int rank) const {
    return base_ + head_of(ranks_) + part_bytes_ * static_cast<std::size_t>(rank);
}

// One after the other, and from the begin again once none is left: a run makes its buffers when it
// begins, and frees them at its end.
GX_DECL std::byte* NodeMemory::allocate(std::size_t bytes, const Label& name) {
    const std::lock_guard lock(mutex_);
    const std::size_t step = bytes >= large_page ? large_page : gx::detail::core_line;
    const std::size_t begin = (used_ + step - 1) / step * step;
    if (bytes > part_bytes_ - staged_ || begin > part_bytes_ - staged_ - bytes)
        throw Error("the memory that ranks of this machine share has " +
                    std::to_string(part_bytes_) + " bytes for each of " + std::to_string(ranks_) +
                    ": no room for the " + std::to_string(bytes) + " bytes of '" +
                    std::string(name.view()) + "'. Run fewer ranks on this machine");
    std::byte* const memory = part(rank_) + begin;
    if (begin < dirty_) std::memset(memory, 0, std::min(bytes, dirty_ - begin));
    used_ = begin + bytes;
    dirty_ = std::max(dirty_, used_);
    ++live_;
    return memory;
}

GX_DECL void NodeMemory::release(std::byte*, std::size_t) noexcept {
    const std::lock_guard lock(mutex_);
    if (--live_ == 0) used_ = 0;
}

/// Where a channel's copies of other memory lie: at the end of the part, in powers of 2.
GX_DECL std::uint64_t NodeMemory::staging(int channel, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    Place& place = stagings_[static_cast<std::size_t>(channel)];
    if (bytes > place.bytes) {
        std::size_t more = 4096;
        while (more < bytes) more *= 2;
        if (more > part_bytes_ - used_ - staged_)
            throw Error("the memory that ranks of this machine share has no room for a copy of " +
                        std::to_string(bytes) + " bytes: run fewer ranks on this machine");
        staged_ += more;
        place = {part_bytes_ - staged_, more, {}};
    }
    return place.offset;
}

// ---- Meetings -----------------------------------------------------------------------------------

GX_DECL NodeMemory::Meeting NodeMemory::meeting(int channel) const {
    GX_EXPECT(channel >= 0 && channel < static_cast<int>(channels),
              "processes share memory on channels 0 to 15");
    using gx::detail::Gate;
    std::byte* const at = base_ + static_cast<std::size_t>(channel) * channel_of(ranks_);
    auto* const gates = reinterpret_cast<Gate*>(at);
    auto* const seats = reinterpret_cast<Seat*>(at + 2 * sizeof(Gate));
    return {gates, gates + 1, seats, reinterpret_cast<Place*>(seats + ranks_)};
}

GX_DECL Delivery NodeMemory::share(Session& session, std::chrono::nanoseconds deadline, int channel,
                                   std::span<std::byte> mine, SharedWork work, MessageBucket bucket,
                                   bool by_last) {
    const Meeting m = meeting(channel);
    const auto r = static_cast<std::size_t>(rank_), n = static_cast<std::size_t>(ranks_);
    std::byte* const begin = part(rank_);
    const bool inside = mine.data() >= begin && mine.data() < begin + part_bytes_;
    const Place place{
        inside ? static_cast<std::uint64_t>(mine.data() - begin) : staging(channel, mine.size()),
        mine.size(), bucket};
    if (!inside && !mine.empty()) std::memcpy(begin + place.offset, mine.data(), mine.size());
    Place& published = m.places[r];  // others have it in their caches: written when it changes,
                                     // which with buckets is in each meeting, for some 60 ns
    if (published != place) published = place;
    const std::uint64_t come = m.seats[r].come.load(std::memory_order_relaxed) + 1;
    const std::uint64_t last = come * n;
    m.seats[r].come.store(come, std::memory_order_relaxed);
    const auto take_back = [&] {
        if (!inside && !mine.empty()) std::memcpy(mine.data(), begin + place.offset, mine.size());
    };
    const bool is_last = m.come->enter(last), works = is_last || !by_last;
    const auto has_worked = [&](std::uint64_t meetings) {
        m.seats[r].worked.store(meetings, std::memory_order_relaxed);
    };
    if (!works) has_worked(come);
    if (is_last)
        for (std::size_t k = 0; k < n; ++k)
            GX_EXPECT(meet(m.places[k].bucket, bucket),
                      gx::detail::unequal_meeting(members_[r], members_[k], channel, bucket,
                                                  m.places[k].bucket));
    if (!works && gx::detail::spin(spins_, [&] { return m.worked->is_open(last); })) {
        take_back();
        return {};
    }
    if (!is_last) {
        const Delivery d = wait(session, deadline, *m.come, last, m, &Seat::come, come);
        if (!d.complete() && m.come->withdraw(last)) {
            --m.seats[r].come;
            has_worked(come - 1);
            return d;
        }
    }
    if (!works) {
        const Delivery d = wait(session, deadline, *m.worked, last, m, &Seat::worked, come);
        if (d.complete()) take_back();
        return d;
    }
    std::array<std::span<std::byte>, 16> few;
    std::vector<std::span<std::byte>> many(n > few.size() ? n : 0);
    const std::span all = n > few.size() ? std::span(many) : std::span(few).first(n);
    for (std::size_t k = 0; k < n; ++k)
        all[k] = {part(static_cast<int>(k)) + m.places[k].offset, m.places[k].bytes};
    const auto close = [&] {
        has_worked(come);
        if (by_last) m.worked->enter_for_all(n);
        if (by_last || m.worked->enter(last)) return Delivery{};
        return wait(session, deadline, *m.worked, last, m, &Seat::worked, come);
    };
    try {
        work(all);
    } catch (...) {
        (void)close();
        throw;
    }
    const Delivery d = close();
    if (d.complete()) take_back();
    return d;
}

// For ranks whose `count` has not reached that of this meeting. Ranks that have not come are blamed
// at the deadline, or once they have left; ranks that work are not.
GX_DECL Delivery NodeMemory::wait(Session& session, std::chrono::nanoseconds deadline,
                                  const gx::detail::Gate& gate, std::uint64_t last,
                                  const Meeting& m, std::atomic<std::uint64_t> Seat::* count,
                                  std::uint64_t meetings) {
    const auto open = [&] { return gate.is_open(last); };
    if (gx::detail::spin(spins_, open)) return {};
    gx::detail::Patience patience(deadline);
    const auto all = std::views::iota(0, ranks_);
    const auto missing = [&](int i) {  // of those that share; the rank in the session, or -1
        return (m.seats[i].*count).load() < meetings ? members_[std::size_t(i)] : -1;
    };
    const auto absent = [&](bool left) {  // the first rank that has not come
        for (const int i : all) {
            const int r = members_[std::size_t(i)];
            const bool gone = !left || session.left(r);  // before its seat, which then is final
            if (gone && missing(i) >= 0) return r;
        }
        return -1;
    };
    const bool is_coming = count == &Seat::come;
    for (WaitsFor waits(session, all, missing);; waits.now(all, missing)) {
        if (gx::detail::spin(false, open)) return {};
        int missed = is_coming ? absent(true) : -1;
        if (patience.ended() && missed < 0 && is_coming) missed = absent(false);
        // Looked at now: a rank that has thrown or died has left too, after its cause was known.
        Cause cause = session.cause();
        if (!cause.stopped() && missed >= 0 && !open()) {
            session.blame(missed, &waits);
            cause = session.await_cause();
        }
        if (cause.stopped()) {
            return {cause.rank == session.rank() ? Delivery::Outcome::cancelled : cause.outcome(),
                    cause.rank};
        }
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
}

}  // namespace gx::coordination
