#include "memory.hpp"

#include <sys/mman.h>  // madvise, mmap, mprotect

#include <algorithm>  // count, max, sort
#include <cstdint>    // PTRDIFF_MAX, uintptr_t
#include <fstream>    // limits
#include <iterator>   // istreambuf_iterator, prev

namespace gx::cuda_testing {

namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t line_bytes = 256;  // cudaMalloc aligns to at least this

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

}  // namespace

Memory::~Memory() {
    for (auto& [begin, a] : all_)
        if (a.pages != nullptr) ::munmap(a.pages - page_bytes, (a.page_count + 2) * page_bytes);
}

Allocation* Memory::map(Allocation::Kind kind, int device, std::size_t bytes) {
    if (bytes > PTRDIFF_MAX / 2) return nullptr;  // rounded up it would be little
    const std::size_t lines = footprint(bytes);
    const std::size_t count = round_up(lines, page_bytes) / page_bytes;
    void* const all = ::mmap(nullptr, (count + 2) * page_bytes, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return nullptr;
    auto* const pages = static_cast<std::byte*>(all) + page_bytes;
    const bool is_device = kind == Allocation::Kind::device;
    // Unlike the pages around them, so that a change of their protection is no change of mappings.
    if (::madvise(pages, count * page_bytes, MADV_DONTDUMP) != 0 ||
        (!is_device && ::mprotect(pages, count * page_bytes, PROT_READ | PROT_WRITE) != 0)) {
        ::munmap(all, (count + 2) * page_bytes);
        return nullptr;
    }
    // Protection changes for each call that works on it: of ResNet-50's 94 MB that was the larger
    // part of a step in small pages. No error where the system has no huge ones.
    if (is_device) (void)::madvise(pages, count * page_bytes, MADV_HUGEPAGE);
    std::byte* const begin = pages + (count * page_bytes - lines);
    Allocation& a = all_[begin];
    a = {.kind = kind, .device = device, .begin = begin, .bytes = bytes};
    a.pages = pages;
    a.page_count = count;
    live_.insert(&a);
    a.name = (is_device ? "device memory " : "pinned memory ") +
             std::to_string(is_device ? ++devices_memory_ : ++pinned_) +
             (is_device ? " of device " + std::to_string(device) : "") + " (" +
             std::to_string(bytes) + " bytes)";
    if (is_device) used_[device] += lines;
    else a.access.assign(count, Allocation::Page::open);
    return &a;
}

Allocation* Memory::add_registered(void* begin, std::size_t bytes, int device) {
    Allocation& a = all_[static_cast<std::byte*>(begin)];
    a = {.kind = Allocation::Kind::registered,
         .device = device,
         .begin = static_cast<std::byte*>(begin),
         .bytes = bytes};
    live_.insert(&a);
    a.name =
        "registered memory " + std::to_string(++pinned_) + " (" + std::to_string(bytes) + " bytes)";
    return &a;
}

void Memory::release(Allocation& a, const std::string& by) {
    a.state = Allocation::State::freed;
    a.freed_by = by;
    a.is_open = false;
    live_.erase(&a);
    if (a.kind == Allocation::Kind::device) used_[a.device] -= footprint(a.bytes);
    const std::size_t bytes = a.page_count * page_bytes;
    if (::mmap(a.pages, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
               -1, 0) != MAP_FAILED)
        return;
    ::mprotect(a.pages, bytes, PROT_NONE);  // needs no mapping
    ::madvise(a.pages, bytes, MADV_DONTNEED);
}

void Memory::forget_registered(Allocation& a) {
    live_.erase(&a);
    all_.erase(a.begin);
}

std::vector<Allocation*> Memory::live() {
    std::vector<Allocation*> list(live_.begin(), live_.end());
    std::ranges::sort(list, {}, &Allocation::begin);
    return list;
}

Allocation* Memory::find(const void* address) {
    const auto* const byte = static_cast<const std::byte*>(address);
    auto after = all_.upper_bound(byte);
    if (after != all_.begin()) {
        Allocation& a = std::prev(after)->second;
        const std::byte* const end =
            a.pages == nullptr ? a.begin + a.bytes : a.pages + (a.page_count + 1) * page_bytes;
        if (byte < end) return &a;
    }
    if (after == all_.end()) return nullptr;
    Allocation& next = after->second;  // an address before its begin
    return next.pages != nullptr && byte >= next.pages - page_bytes ? &next : nullptr;
}

Allocation* Memory::begins_at(const void* address) {
    const auto found = all_.find(static_cast<const std::byte*>(address));
    if (found == all_.end() || found->second.state == Allocation::State::freed) return nullptr;
    return &found->second;
}

std::string Memory::flaw(const void* begin, std::size_t bytes) {
    const auto* const first = static_cast<const std::byte*>(begin);
    const Allocation* const a = find(begin);
    if (a == nullptr) return "memory that the runtime did not allocate";
    if (a->state == Allocation::State::freed) return a->name + ", which " + a->freed_by + " freed";
    if (first < a->begin) return byte_of(*a, begin);
    const auto offset = static_cast<std::size_t>(first - a->begin);
    if (offset > a->bytes || bytes > a->bytes - offset)
        return "bytes " + std::to_string(offset) + " to " + std::to_string(offset + bytes) +
               " of " + a->name;
    if (a->state == Allocation::State::promised)
        return a->name + ", whose cudaMallocAsync has not run";
    return "";
}

std::string Memory::byte_of(const Allocation& a, const void* address) {
    return "byte " + std::to_string(static_cast<const std::byte*>(address) - a.begin) + " of " +
           a.name;
}

std::size_t Memory::footprint(std::size_t bytes) {
    return round_up(std::max<std::size_t>(bytes, 1), line_bytes);
}

bool Memory::protect(Allocation& a, bool open) {
    return ::mprotect(a.pages, a.page_count * page_bytes,
                      open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0;
}

std::string Memory::shortage() {
    std::ifstream limit("/proc/sys/vm/max_map_count"), mappings("/proc/self/maps");
    std::ptrdiff_t most = 0;
    limit >> most;
    using Characters = std::istreambuf_iterator<char>;
    constexpr std::ptrdiff_t of_one = 3;  // those that a refused allocation gave back
    if (std::count(Characters(mappings), Characters(), '\n') + of_one < most) return "";
    return "the process has all mappings that the system allows (vm.max_map_count). An allocation "
           "takes two of them here: keep fewer, or raise the limit.";
}

Use Memory::pages_of(const Use& use) {
    const auto before = reinterpret_cast<std::uintptr_t>(use.begin) % page_bytes;
    return {use.begin - before, round_up(before + use.bytes, page_bytes), use.writes};
}

bool Memory::set_pages(Allocation& a, const void* begin, std::size_t bytes,
                       Allocation::Page access) {
    if (bytes == 0 || a.pages == nullptr) return true;
    const auto first =
        static_cast<std::size_t>(static_cast<const std::byte*>(begin) - a.pages) / page_bytes;
    const auto end = (static_cast<std::size_t>(static_cast<const std::byte*>(begin) - a.pages) +
                      bytes + page_bytes - 1) /
                     page_bytes;
    const int bits = access == Allocation::Page::closed     ? PROT_NONE
                     : access == Allocation::Page::readable ? PROT_READ
                                                            : PROT_READ | PROT_WRITE;
    if (::mprotect(a.pages + first * page_bytes, (end - first) * page_bytes, bits) != 0)
        return false;
    for (std::size_t i = first; i < end; ++i) a.access[i] = access;
    return true;
}

}  // namespace gx::cuda_testing
