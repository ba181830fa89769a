// FunctionRef<R(A...)>: non-owning reference to a callable; two words, no allocation.
#pragma once

#include <concepts>     // invocable
#include <memory>       // addressof
#include <type_traits>  // remove_reference_t
#include <utility>      // forward

namespace gx {

template <class Signature>
class FunctionRef;

/// Non-owning reference to a callable that outlives the call it is passed to.
template <class R, class... A>
class FunctionRef<R(A...)> {
public:
    template <class F>
        requires(!std::same_as<std::remove_cvref_t<F>, FunctionRef> &&
                 std::is_invocable_r_v<R, F&, A...>)
    constexpr FunctionRef(F&& f)  // NOLINT: meant to convert, as a parameter
        : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
          call_([](void* object, A... a) -> R {
              return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<A>(a)...);
          }) {}

    constexpr R operator()(A... a) const { return call_(object_, std::forward<A>(a)...); }

private:
    void* object_;
    R (*call_)(void*, A...);
};

}  // namespace gx
