// OwnedList: objects at fixed addresses, by index.
#pragma once

#include <cstddef>  // size_t
#include <utility>  // forward

#include <gx/core/cold.hpp>            // GX_COLD
#include <gx/core/trivial_vector.hpp>  // the addresses

namespace gx::onednn::detail {

/// What a std::deque<T> or a std::vector<std::unique_ptr<T>> would hold; those are slow to compile.
/// A place may be empty.
template <class T>
class OwnedList {
public:
    OwnedList() = default;
    OwnedList(const OwnedList&) = delete;
    OwnedList& operator=(const OwnedList&) = delete;
    GX_COLD ~OwnedList() {
        for (T* object : list_) delete object;
    }
    /// Makes an S behind the others.
    template <class S = T, class... A>
    S& add(A&&... arguments) {
        list_.push_back(nullptr);  // first: what may throw leaks nothing
        S* made = new S(std::forward<A>(arguments)...);
        list_.back() = made;
        return *made;
    }
    /// Makes empty places, so that there are at least `count`.
    GX_COLD void widen(int count) {
        if (count > this->count()) list_.resize(index(count), nullptr);
    }
    /// Owns `made`, in the empty place `i`.
    void put(int i, T* made) { list_[index(i)] = made; }
    [[nodiscard]] int count() const { return static_cast<int>(list_.size()); }
    [[nodiscard]] bool has(int i) const { return i < count() && list_[index(i)] != nullptr; }
    [[nodiscard]] T& operator[](int i) const { return *list_[index(i)]; }
    [[nodiscard]] T& back() const { return *list_.back(); }
    [[nodiscard]] T* const* begin() const { return list_.begin(); }
    [[nodiscard]] T* const* end() const { return list_.end(); }

private:
    [[nodiscard]] static std::size_t index(int i) { return static_cast<std::size_t>(i); }
    TrivialVector<T*> list_{};
};

}  // namespace gx::onednn::detail
