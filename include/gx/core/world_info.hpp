// WorldInfo: a World's part of the run report; RunTerms: what its ranks must agree on.
#pragma once

#include <cstdint>  // uint64_t
#include <string>   // names
#include <vector>   // notes

#include <gx/core/units.hpp>  // DollarsPerHour

namespace gx {

/// Description of a world for reports. A world without `info()` has a wall clock and no price.
struct WorldInfo {
    std::string world{};
    std::string clock = "wall";        ///< "wall" or "virtual"
    std::string timed_as{};            ///< model on the clock, if not the trained one
    std::vector<std::string> notes{};  ///< profile and corrections in force, one sentence each
    DollarsPerHour price{};            ///< of all machines together
    std::uint64_t event_hash = 0;      ///< of the last run; 0 where events are not hashed
};

/// What has to be equal on all ranks, or they would train different things.
struct RunTerms {
    std::string composition{};
    std::uint64_t seed = 0;
    std::string options{};  ///< all others that decide what a rank does: "name=value" in lines
    int ranks = 0;
    std::string source{};  ///< description of the data
    bool operator==(const RunTerms&) const = default;
};

/// A rank of a world whose processes may have been started differently.
///
///     compare(terms)   every rank calls it once a run; throws on all of them unless the terms are
///                      those of rank 0
template <class R>
concept ComparesTerms = requires(R& rank, const RunTerms& terms) { rank.compare(terms); };

}  // namespace gx
