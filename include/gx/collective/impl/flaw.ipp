// The sentence of a proof, with its place.
#pragma once

#include <gx/collective/flaw.hpp>  // the declarations

namespace gx::collective {

GX_DECL std::string to_string(const Proof& proof) {
    const std::string sentence(proof.sentence());
    if (proof.holds()) return sentence;
    std::string where = "rank " + std::to_string(proof.rank);
    if (proof.step >= 0) where += ", step " + std::to_string(proof.step);
    if (proof.chunk >= 0) where += ", chunk " + std::to_string(proof.chunk);
    where += ": " + sentence;
    if (proof.contributor >= 0) where += " (rank " + std::to_string(proof.contributor) + ")";
    return where;
}

}  // namespace gx::collective
