// All reducers that campaigns draw from, in one list: a seed means the same in every program.
#include <fuzz/subjects.hpp>

namespace gx::sim::fuzz {

const std::vector<Subject>& subjects() {
    static const std::vector<Subject> all = [] {
        std::vector<Subject> list = ring_subjects();
        for (auto& s : late_subjects()) list.push_back(s);
        for (auto& s : tree_subjects()) list.push_back(s);
        return list;
    }();
    return all;
}

}  // namespace gx::sim::fuzz
