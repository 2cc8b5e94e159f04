use super::*;

#[test]
fn parameters_have_their_types() {
    let mut request = InferRequest::default();
    request.parameter("priority", &Parameter::Number(1)).unwrap();
    request.parameter("timeout", &Parameter::Number(5000)).unwrap();
    request.parameter("my own", &Parameter::Other).unwrap();
    assert_eq!((request.priority, request.timeout), (1, 5000));
    assert!(request.parameter("priority", &Parameter::Text("1".into())).is_err());
    assert!(!request.wants_final);
    request.parameter("triton_enable_empty_final_response", &Parameter::Flag(true)).unwrap();
    assert!(request.wants_final);
    assert!(
        request.parameter("triton_enable_empty_final_response", &Parameter::Number(1)).is_err()
    );
    for (key, value) in [
        ("sequence_id", Parameter::Number(7)),
        ("sequence_id", Parameter::Text("a".into())),
        ("sequence_start", Parameter::Flag(true)),
        ("sequence_end", Parameter::Flag(true)),
    ] {
        let said = request.parameter(key, &value).unwrap_err();
        assert_eq!(said, Error::Unimplemented(format!("parameter {key}: sequences")));
    }
    request.parameter("sequence_start", &Parameter::Flag(false)).unwrap();
    request.parameter("sequence_id", &Parameter::Number(0)).unwrap();
}
