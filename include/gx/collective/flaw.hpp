// Flaw, Proof: the first defect found in a collective, where it is, and its sentence.
#pragma once

#include <string>       // where and what
#include <string_view>  // sentences

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx::collective {

enum class Flaw : unsigned char {
    none,
    peer_out_of_range,
    chunk_out_of_range,
    send_without_receive,
    receive_without_send,
    another_chunk,
    another_count,
    contribution_missing,
    contribution_repeated,
    contribution_foreign,
    chunk_misplaced,
    nothing_to_send,
    adds_a_copy,
    sums_in_two_orders,
    owners_overlap,
    root_out_of_range,
    rank_not_awaited
};

[[nodiscard]] constexpr std::string_view to_string(Flaw flaw) {
    switch (flaw) {
        case Flaw::none: return "the collective keeps its promise";
        case Flaw::peer_out_of_range: return "a peer is no rank, or the rank itself";
        case Flaw::chunk_out_of_range: return "a chunk that does not exist is sent or received";
        case Flaw::send_without_receive: return "a send has no receive in its step";
        case Flaw::receive_without_send: return "a receive has no send in its step";
        case Flaw::another_chunk: return "the receiver expects another chunk than is sent to it";
        case Flaw::another_count:
            return "the receiver expects another number of chunks than are sent to it";
        case Flaw::contribution_missing: return "a chunk ends without some rank's contribution";
        case Flaw::contribution_repeated: return "a chunk ends with a contribution counted twice";
        case Flaw::contribution_foreign:
            return "a chunk ends with a contribution that does not belong to it";
        case Flaw::chunk_misplaced: return "a chunk ends with what was another chunk";
        case Flaw::nothing_to_send: return "a chunk is sent before the rank has received it";
        case Flaw::adds_a_copy: return "a step adds in a collective that only copies";
        case Flaw::sums_in_two_orders:
            return "two ranks swap a chunk and each adds to its own, so that of two NaNs each "
                   "keeps "
                   "another: let one of them have Combine::add_to_received";
        case Flaw::owners_overlap: return "a chunk is not owned by exactly one rank";
        case Flaw::root_out_of_range: return "the root is no rank";
        case Flaw::rank_not_awaited:
            return "a rank leaves the barrier without waiting for some rank";
    }
    return "";
}

/// First defect found, and where. `step` is -1 for the state before the first or after the last
/// step.
struct [[nodiscard]] Proof {
    Flaw flaw = Flaw::none;
    int rank = -1;
    int step = -1;
    int chunk = -1;
    int contributor = -1;  ///< whose contribution is missing, repeated or foreign; or not awaited
    [[nodiscard]] constexpr bool holds() const { return flaw == Flaw::none; }
    [[nodiscard]] constexpr std::string_view sentence() const { return to_string(flaw); }
    constexpr bool operator==(const Proof&) const = default;
};

/// "rank 2, step 3, chunk 1: a send has no receive in its step".
[[nodiscard]] GX_DECL std::string to_string(const Proof& proof);

}  // namespace gx::collective

#if defined(GX_HEADER_ONLY)
#include <gx/collective/impl/flaw.ipp>
#endif
