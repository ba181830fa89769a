// Memory: device and pinned allocations, their open pages, and who may use what.
#pragma once

#include <cstddef>  // byte
#include <map>      // allocations
#include <set>      // those that live
#include <string>   // names
#include <vector>   // pages

#include "operations.hpp"

namespace gx::cuda_testing {

struct Allocation {
    enum class Kind : unsigned char { device, pinned, registered };
    enum class State : unsigned char {
        promised,  ///< by a cudaMallocAsync that has not run
        live,
        freed
    };
    enum class Page : unsigned char { closed, readable, open };

    Kind kind = Kind::device;
    State state = State::live;
    int device = 0;
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::string name{};          ///< "device memory 3 of device 0 (400 bytes)"
    std::string freed_by{};      ///< the call
    std::byte* pages = nullptr;  ///< of our own mapping; nullptr where registered
    std::size_t page_count = 0;  ///< without the closed page at either end
    std::vector<Page> access{};  ///< of pinned pages
    bool is_open = false;        ///< of device memory: to the work that runs
};

/// All memory that the runtime allocated or registered. Device memory lies in pages without access,
/// which are opened to an operation that uses it, and closed before the host goes on: emulated
/// kernels use device pointers themselves, so a second mapping would not do. An allocation ends
/// where its last page does, to 256 bytes, and a closed page lies on either side. No address is
/// given out twice, so that a use after free is known.
/// Errors: `map` returns nullptr where the system gives no pages; shortage() says whether it is for
/// the number of mappings.
class Memory {
public:
    Memory() = default;
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory();

    Allocation* map(Allocation::Kind kind, int device, std::size_t bytes);
    Allocation* add_registered(void* begin, std::size_t bytes, int device);
    /// Pages without access from here on; the name stays for sentences.
    void release(Allocation& a, const std::string& by);
    void forget_registered(Allocation& a);

    /// The allocation, live or freed, whose bytes or neighbouring closed pages hold the address.
    [[nodiscard]] Allocation* find(const void* address);
    /// The live allocation that begins there.
    [[nodiscard]] Allocation* begins_at(const void* address);
    /// "" where all of the range lies in one live allocation, else what is wrong with it.
    [[nodiscard]] std::string flaw(const void* begin, std::size_t bytes);
    /// "byte 16 of device memory 3 of device 0 (400 bytes)".
    [[nodiscard]] static std::string byte_of(const Allocation& a, const void* address);

    /// Those that were not freed, in the order of their addresses.
    [[nodiscard]] std::vector<Allocation*> live();
    [[nodiscard]] std::size_t used(int device) const {
        const auto found = used_.find(device);
        return found == used_.end() ? 0 : found->second;
    }
    /// Bytes of a device's memory that an allocation takes.
    [[nodiscard]] static std::size_t footprint(std::size_t bytes);

    /// The use in whole pages.
    [[nodiscard]] static Use pages_of(const Use& use);
    /// Opens or closes device memory. False where the system gives no memory for open pages.
    static bool protect(Allocation& a, bool open);
    /// Pinned pages of the range. False where the system refuses: the process has all mappings.
    static bool set_pages(Allocation& a, const void* begin, std::size_t bytes,
                          Allocation::Page access);
    /// What the process has too many of, where that is why the system refuses; else "".
    [[nodiscard]] static std::string shortage();

private:
    std::map<const std::byte*, Allocation> all_{};  // by begin; the freed ones too
    std::set<Allocation*> live_{};
    std::map<int, std::size_t> used_{};  ///< bytes of each device
    int devices_memory_ = 0, pinned_ = 0;
};

}  // namespace gx::cuda_testing
