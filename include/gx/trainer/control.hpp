// Control messages: small sums and comparisons over all ranks, for metrics and agreement.
#pragma once

#include <cstddef>  // byte
#include <cstdint>  // uint64_t
#include <span>     // values

#include <gx/core/decl.hpp>       // GX_DECL
#include <gx/core/error.hpp>      // Delivery
#include <gx/core/transport.hpp>  // Transport, control_channel

namespace gx {

/// The control channel of any Transport, whose type the functions below need not know: they are
/// compiled once. Refers to the transport. Blocking; for messages that are few and small.
class ControlLink {
public:
    template <Transport T>
    ControlLink(T& link)  // NOLINT: a transport is one
        : link_(&link),
          rank_(link.rank()),
          ranks_(link.ranks()),
          send_(&send_on<T>),
          receive_(&receive_on<T>),
          working_on_(
              [](void* to, const Operation& o) { gx::working_on(*static_cast<T*>(to), o); }) {}

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int ranks() const { return ranks_; }
    Delivery send(int to, std::span<const std::byte> message) { return send_(link_, to, message); }
    Delivery receive(int from, std::span<std::byte> message) {
        return receive_(link_, from, message);
    }
    void working_on(const Operation& operation) { working_on_(link_, operation); }

private:
    template <class T>
    static Delivery send_on(void* link, int to, std::span<const std::byte> message) {
        T& t = *static_cast<T*>(link);
        return t.wait(t.send(to, control_channel, message));
    }
    template <class T>
    static Delivery receive_on(void* link, int from, std::span<std::byte> message) {
        T& t = *static_cast<T*>(link);
        return t.wait(t.receive(from, control_channel, message));
    }

    void* link_;
    int rank_, ranks_;
    Delivery (*send_)(void*, int, std::span<const std::byte>);
    Delivery (*receive_)(void*, int, std::span<std::byte>);
    void (*working_on_)(void*, const Operation&);
};

namespace detail {

/// Every rank's bytes, one after the other in rank order, on every rank; `all` has room for them.
GX_DECL Delivery gather_all(ControlLink link, std::span<const std::byte> mine,
                            std::span<std::byte> all);

/// Every rank's bytes, one after the other in rank order, on rank 0; `all` has room for them there.
GX_DECL Delivery gather_to_first(ControlLink link, std::span<const std::byte> mine,
                                 std::span<std::byte> all);

}  // namespace detail

/// Sums `values` over all ranks, in place. Every rank calls it with as many values.
/// Order: rank 0 first, in double: all ranks get equal bits, in every world.
/// Cost:  2 (n - 1) messages through rank 0; for metrics, never for gradients.
GX_DECL Delivery sum_over_ranks(ControlLink link, std::span<double> values);

struct Agreement {
    Delivery delivery;
    int differs = -1;  ///< the first rank whose value differs from that of rank 0, or -1
};
/// Compares one value of every rank; returns the same on all ranks.
/// Cost: as sum_over_ranks.
[[nodiscard]] GX_DECL Agreement agree(ControlLink link, std::uint64_t value);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/control.ipp>
#endif
