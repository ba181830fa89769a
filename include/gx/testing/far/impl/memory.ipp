// FarArena: pages, and who owns them.
#pragma once

#include <signal.h>    // sigaction
#include <sys/mman.h>  // mmap, memfd_create
#include <unistd.h>    // ftruncate, write

#include <algorithm>  // max
#include <iterator>   // prev
#include <vector>     // all arenas

#include <gx/core/error.hpp>          // Error
#include <gx/testing/far/memory.hpp>  // the declarations

namespace gx::testing {

namespace detail::far {

inline std::vector<const FarArena*>& arenas() {
    static std::vector<const FarArena*> all;
    return all;
}

/// Who handled faults before: by default the system, under a sanitizer its report.
inline struct sigaction& handler_before() {
    static struct sigaction before{};
    return before;
}

extern "C" inline void gx_report_host_access(int, siginfo_t* info, void*) {
    for (const FarArena* arena : arenas()) {
        const std::string where = arena->describe(info->si_addr);
        if (where.empty()) continue;
        const std::string text = "gx: the host touches far memory: " + where +
                                 ". Launch a kernel on it, or copy it to the host first.\n";
        [[maybe_unused]] const auto written = ::write(2, text.data(), text.size());
    }
    ::sigaction(SIGSEGV, &handler_before(), nullptr);  // the access is repeated, and ends
}

}  // namespace detail::far

GX_DECL FarArena::FarArena(int rank) : rank_(rank) {
    constexpr std::size_t bytes = FarMemory::mapped_bytes;
    const auto fail = [&] {
        throw Error("rank " + std::to_string(rank) + ": the system gives no " +
                    std::to_string(bytes) +
                    " bytes of addresses for far memory, twice. Allow "
                    "more address space (ulimit -v).");
    };
    void* const both =
        ::mmap(nullptr, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (both == MAP_FAILED) fail();
    base_ = static_cast<std::byte*>(both);
    const int file = ::memfd_create("gx far memory", MFD_CLOEXEC);
    const bool mapped =
        file >= 0 && ::ftruncate(file, static_cast<off_t>(bytes)) == 0 &&
        ::mmap(base_, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED &&
        ::mmap(base_ + bytes, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) !=
            MAP_FAILED;
    if (file >= 0) ::close(file);
    if (!mapped) {
        ::munmap(both, 2 * bytes);
        fail();
    }
    detail::far::arenas().push_back(this);
}

GX_DECL FarArena::~FarArena() {
    std::erase(detail::far::arenas(), this);
    ::munmap(base_, 2 * FarMemory::mapped_bytes);
}

GX_DECL std::byte* FarArena::allocate(std::size_t bytes, const Label& name) {
    constexpr std::size_t line = 64, page = 4096;
    const std::size_t size = std::max<std::size_t>(bytes, 1);
    if (size > FarMemory::mapped_bytes - used_)
        throw Error("rank " + std::to_string(rank_) + ": '" + std::string(name.view()) + "' of " +
                    std::to_string(bytes) + " bytes does not fit into the " +
                    std::to_string(FarMemory::mapped_bytes - used_) +
                    " bytes of far memory that are left. Train a smaller model here.");
    std::byte* const at = base_ + used_;
    allocations_[at] = {bytes, name, false};
    used_ = std::min(FarMemory::mapped_bytes, (used_ + size + line - 1) / line * line + page);
    ++live_;
    return at;
}

GX_DECL void FarArena::release(const std::byte* memory) {
    allocations_.at(memory).released = true;
    --live_;
}

GX_DECL const std::pair<const std::byte* const, FarArena::Allocation>* FarArena::find(
    const std::byte* address) const {
    auto at = allocations_.upper_bound(address);
    if (at == allocations_.begin()) return nullptr;
    --at;
    return &*at;
}

GX_DECL std::string FarArena::flaw(std::span<const std::byte> memory) const {
    const auto* const found = find(memory.data());
    if (memory.data() < base_ || memory.data() >= base_ + used_ || found == nullptr)
        return "memory of no buffer of rank " + std::to_string(rank_);
    const auto& [begin, a] = *found;
    const std::string name = "'" + std::string(a.name.view()) + "'";
    if (a.released) return name + ", which was released";
    const auto offset = static_cast<std::size_t>(memory.data() - begin);
    if (offset + memory.size() > a.bytes)
        return name + " up to byte " + std::to_string(offset + memory.size()) + " of " +
               std::to_string(a.bytes);
    return "";
}

GX_DECL std::string FarArena::describe(const void* address) const {
    const auto* const byte = static_cast<const std::byte*>(address);
    if (byte < base_ || byte >= base_ + FarMemory::mapped_bytes) return "";
    const auto* const found = find(byte);
    if (byte >= base_ + used_ || found == nullptr)
        return "memory of no buffer of rank " + std::to_string(rank_);
    const auto& [begin, a] = *found;
    const auto offset = static_cast<std::size_t>(byte - begin);
    return "'" + std::string(a.name.view()) + "' of rank " + std::to_string(rank_) + ", byte " +
           std::to_string(offset) +
           (offset < a.bytes ? "" : ", behind its " + std::to_string(a.bytes) + " bytes") +
           (a.released ? ", which was released" : "");
}

GX_DECL void name_host_accesses() {
    struct sigaction before{};
    if (::sigaction(SIGSEGV, nullptr, &before) != 0) return;
    if (before.sa_sigaction == &detail::far::gx_report_host_access) return;
    detail::far::handler_before() = before;
    struct sigaction action{};
    action.sa_sigaction = &detail::far::gx_report_host_access;
    action.sa_flags = SA_SIGINFO | (before.sa_flags & SA_ONSTACK);
    ::sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace gx::testing
