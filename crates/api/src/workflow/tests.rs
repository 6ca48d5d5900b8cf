use super::*;

#[test]
fn states_follow_each_other_in_the_order_of_the_schema() {
    let mut state = &WorkflowState::Proposal;
    let mut states = vec![state.as_str()];
    while let Some(next) = state.next() {
        states.push(next.as_str());
        state = next;
    }
    assert_eq!(states, WorkflowState::VALUES);
    assert_eq!(WorkflowState::from("later").next(), None);
}
